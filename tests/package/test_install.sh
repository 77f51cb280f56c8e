#!/bin/sh
# After `make install` a program starts: README's own, built as README says, with the loader's own
# cache. And what was installed can be removed again. In a mount namespace with a /usr/local and an
# /etc of its own, so that nothing of the machine is touched.
set -eu
. "$QUERN_SOURCE/tests/lib_test.sh"
enter_namespace "$@"
work=$2

cp -a /etc "$work/etc" 2>/dev/null || true # what may not be read is not needed
mount --bind "$work/etc" /etc
mount -t tmpfs none /usr/local
cmake --install "$QUERN_BUILD" --prefix /usr/local >"$work/log" ||
    fail "install: $(cat "$work/log")"
# Who is not root cannot do that for the loader, and reads what is to be done.
cp "$QUERN_SOURCE/scripts/after_install" /usr/local/
if setpriv --reuid 65534 --clear-groups true 2>/dev/null; then
    setpriv --reuid 65534 --clear-groups /usr/local/after_install /usr/local >"$work/said"
    grep -q "run 'ldconfig' as root" "$work/said" || fail "not root: $(cat "$work/said")"
fi
rm /usr/local/after_install
"$QUERN_SOURCE/scripts/after_install" /usr/local >"$work/said"
[ ! -s "$work/said" ] || fail "the loader does not find it: $(cat "$work/said")"

unset LD_LIBRARY_PATH PKG_CONFIG_PATH
readme_program "$work/hello.c"
# shellcheck disable=SC2046,SC2086 # flags are lists of words
$CC $CFLAGS -o "$work/hello" "$work/hello.c" $(pkg-config --cflags --libs quern)
said=$(cd "$work" && ./hello)
[ "$said" = "hello, world" ] || fail "README's program says: $said"

# The links of the installed pages lead to installed pages.
python3 - /usr/local/share/doc/quern <<'END' || fail "links of installed pages"
import pathlib
import re
import sys

failed = checked = 0
for page in pathlib.Path(sys.argv[1]).rglob("*.md"):
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        checked += 1
        if not (page.parent / link).exists():
            print(f"{page}: there is no {link}")
            failed += 1
sys.exit(1 if failed or checked < 20 else 0)
END
[ -f /usr/local/share/doc/quern/examples/hello.c ] || fail "the examples are not installed"

manifest=$work/manifest
cp "$QUERN_BUILD/install_manifest.txt" "$manifest"
"$QUERN_SOURCE/scripts/uninstall" "$manifest" >"$work/said" || fail "uninstall: $(cat "$work/said")"
left=$(find /usr/local ! -type d)
[ -z "$left" ] || fail "uninstall leaves: $left"
left=$(find /usr/local -name quern)
[ -z "$left" ] || fail "uninstall leaves: $left"
"$QUERN_SOURCE/scripts/uninstall" "$manifest" | grep -q '0 files' || fail "it cannot be repeated"
if "$QUERN_SOURCE/scripts/uninstall" "$work/none" 2>"$work/said"; then
    fail "uninstall without a manifest ends with 0"
fi

# Under /usr pkg-config names no folder that every compiler looks through.
DESTDIR=$work/stage cmake --install "$QUERN_BUILD" --prefix /usr >"$work/log"
flags=$(PKG_CONFIG_PATH=$(dirname "$(find "$work/stage/usr" -name quern.pc)") \
    pkg-config --cflags --libs quern | sed 's/ *$//')
[ "$flags" = "-lquern" ] || fail "under /usr pkg-config says: $flags"
DESTDIR=$work/stage "$QUERN_SOURCE/scripts/uninstall" "$QUERN_BUILD/install_manifest.txt" \
    >"$work/said"
[ -z "$(find "$work/stage" ! -type d)" ] || fail "uninstall below DESTDIR leaves files"
