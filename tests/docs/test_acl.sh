#!/bin/sh
# The user that docs/protocol/redis.md advises for Redis is the one that the tests run as.
set -eu

# words FILE PATTERN - the words from the line with the pattern on, up to the last right.
words()
{
    sed -n "/$2/,/trackinginfo/p" "$1" | tr -d '";' | tr -s ' \n' '\n' | grep -v '^$'
}

advised=$(words "$QUERN_SOURCE/docs/protocol/redis.md" '^user worker on')
used=$(words "$QUERN_SOURCE/tests/lib_place.c" '"user worker on')
[ -n "$advised" ] || { echo "FAILED: no user in the page" >&2; exit 1; }
if [ "$advised" != "$used" ]; then
    echo "FAILED: the page advises:" "$advised" "but the tests use:" "$used" >&2
    exit 1
fi
