#!/bin/sh
# scripts/bootstrap installs what is missing and nothing else, says nothing when all is there, and
# explains itself where it cannot help. Its package manager is made up here: nothing is installed.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
for tool in sh cat grep mktemp rm env dirname sed; do
    ln -s "$(command -v "$tool")" "$work/bin/$tool"
done

fail()
{
    echo "FAILED: $*" >&2
    cat "$work/said" "$work/done" >&2
    exit 1
}

# fake NAME LINE... - a program of that name.
fake()
{
    name=$work/bin/$1
    shift
    { echo "#!/bin/sh" && printf '%s\n' "$@"; } >"$name"
    chmod +x "$name"
}

# bootstrap [ARGUMENT...] - runs it with the made-up system; its exit code is $code.
bootstrap()
{
    code=0
    : >"$work/done"
    PATH="$work/bin" MISSING="${missing-}" DONE="$work/done" \
        "$QUERN_SOURCE/scripts/bootstrap" "$@" >"$work/said" 2>&1 || code=$?
}

fake dpkg-query 'for package; do :; done' \
    'case " $MISSING " in *" $package "*) echo not-installed ;; *) echo installed ;; esac'
fake apt-get 'echo "$*" >>"$DONE"; echo chatter'
fake id 'echo 0'
fake go 'echo "go version go1.24.1 linux/amd64"'

missing=""
bootstrap --all
[ "$code" = 0 ] && [ ! -s "$work/said" ] && [ ! -s "$work/done" ] || fail "all is there"

missing="cmake libjansson-dev libcmocka-dev"
bootstrap
[ "$code" = 0 ] || fail "exit code $code"
[ "$(cat "$work/said")" = "bootstrap: installing cmake libjansson-dev" ] || fail "what it says"
grep -q "install.* cmake libjansson-dev\$" "$work/done" || fail "what it installs"
bootstrap --tests
grep -q "install.* cmake libjansson-dev libcmocka-dev\$" "$work/done" || fail "for the tests"

fake apt-get 'echo "no such host"; exit 100'
bootstrap
[ "$code" = 1 ] && grep -q "no such host" "$work/said" || fail "an error of apt-get is told"

fake id 'echo 1000'
bootstrap
[ "$code" = 1 ] && grep -q "apt-get install cmake libjansson-dev" "$work/said" ||
    fail "without root and sudo"
fake sudo 'echo "sudo $*" >>"$DONE"; exec "$@"'
fake apt-get 'echo "$*" >>"$DONE"'
bootstrap
[ "$code" = 0 ] && grep -q "^sudo .*apt-get.* install" "$work/done" || fail "by sudo"

rm "$work/bin/dpkg-query"
bootstrap
[ "$code" = 1 ] && grep -q jansson "$work/said" || fail "another system is told what to install"
fake cmake ''
fake pkg-config ''
bootstrap
[ "$code" = 0 ] || fail "another system that has it all"

bootstrap --wrong
[ "$code" = 2 ] || fail "a wrong argument"
