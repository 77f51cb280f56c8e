#!/bin/sh
# The user that docs/protocol/redis.md advises for Redis is the one that the tests run as, and the
# one that the program advises where something is refused.
set -eu

# words FILE PATTERN - the words from the line with the pattern on, up to the last right.
words()
{
    sed -n "/$2/,/trackinginfo/p" "$1" | tr -d '";' | tr -s ' \n' '\n' | grep -v '^$'
}

advised=$(words "$QUERN_SOURCE/docs/protocol/redis.md" '^user worker on')
used=$(words "$QUERN_SOURCE/tests/lib_store.c" '"user worker on')
[ -n "$advised" ] || { echo "FAILED: no user in the page" >&2; exit 1; }
printed=$(words "$QUERN_SOURCE/src/cli/message.c" '"ACL SETUSER worker on' |
    sed '/^ACL$/d; s/^SETUSER$/user/')
if [ "$advised" != "$printed" ]; then
    echo "FAILED: the page advises:" "$advised" "but the program says:" "$printed" >&2
    exit 1
fi
if [ "$advised" != "$used" ]; then
    echo "FAILED: the page advises:" "$advised" "but the tests use:" "$used" >&2
    exit 1
fi

# The client's: keys and rights are two texts in the test.
advised=$(sed -n '/^user client on/,/^```/p' "$QUERN_SOURCE/docs/protocol/redis.md" |
    tr -s ' \n' '\n' | grep '^[%~+]' | grep -v '^```' | tr '\n' ' ')
used=$(sed -n '/^static const char keys/,/^static struct/p' \
    "$QUERN_SOURCE/tests/fault/redis/client/test_users.c" |
    tr -d '";' | tr -s ' \n' '\n' | grep '^[%~+]' | tr '\n' ' ')
if [ "$advised" != "$used" ] || [ -z "$used" ]; then
    echo "FAILED: for clients the page advises:" "$advised" "but the test uses:" "$used" >&2
    exit 1
fi
