#!/bin/sh
# README's program builds and starts in a clean Debian: a tree that holds the files of a few Debian
# packages, the files of `make install`, and nothing else. The compile line is README's own.
#
# The packages: a shell and its usual tools, gcc, pkg-config, and those of the libraries that quern
# is linked with. The tree is a tmpfs in a mount namespace of its own.
set -eu
. "$QUERN_SOURCE/tests/lib_test.sh"
for program in apt-cache dpkg-query unshare chroot tar; do
    command -v "$program" >/dev/null || skip "there is no $program"
done
"$CC" --version | grep -qi clang && skip "the tree has gcc only"
enter_namespace "$@"
tree=$2

# needed - the packages of the libraries that are loaded with quern, and what one needs to type.
needed()
{
    echo "dash coreutils findutils grep sed libc-bin gcc libc6-dev pkg-config"
    ldd "$QUERN" "$QUERN_LIBRARY" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u |
        while read -r library; do
            dpkg-query -S "$library" "$(readlink -f "$library")" 2>/dev/null || true
        done | sed 's/:.*//' | sort -u
}

# with_dependencies PACKAGE... - the same with all that they need.
with_dependencies()
{
    apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts \
        --no-breaks --no-replaces --no-enhances "$@" | sed -n 's/^\([a-z0-9][^ :]*\).*/\1/p' |
        sort -u
}

in_tree()
{
    env -i PATH=/usr/local/bin:/usr/bin:/usr/sbin HOME=/root CFLAGS="$CFLAGS" \
        chroot "$tree" /bin/sh -euc "$1"
}

mount -t tmpfs none "$tree"
mkdir -p "$tree/usr/bin" "$tree/usr/sbin" "$tree/usr/lib" "$tree/usr/lib64" "$tree/etc" \
    "$tree/tmp" "$tree/root" "$tree/proc" "$tree/dev"
for folder in bin sbin lib lib64; do # as in every Debian since 12
    ln -s "usr/$folder" "$tree/$folder"
done
# shellcheck disable=SC2046 # lists of packages
for package in $(with_dependencies $(needed)); do
    dpkg-query -L "$package" 2>/dev/null || true
done | sort -u | sed 's/^\/\(s\?bin\|lib\|lib64\)\//\/usr\/\1\//' |
    while read -r file; do
        if { [ -f "$file" ] || [ -L "$file" ]; } && [ "${file#/usr/share/doc/}" = "$file" ]; then
            echo "${file#/}"
        fi
    done >"$tree/tmp/files"
tar -cf - -C / -T "$tree/tmp/files" | tar -xf - -C "$tree"
# What Debian makes by update-alternatives. The tests' build may want flags of its own.
printf '#!/bin/sh\nexec gcc %s "$@"\n' "$CFLAGS" >"$tree/usr/bin/cc"
chmod +x "$tree/usr/bin/cc"
mount --rbind /proc "$tree/proc"
mount --rbind /dev "$tree/dev"
in_tree 'cc --version' >/dev/null || fail "the tree is not complete"

DESTDIR=$tree cmake --install "$QUERN_BUILD" --prefix /usr/local >"$tree/tmp/log" ||
    fail "install: $(cat "$tree/tmp/log")"
cp "$QUERN_SOURCE/scripts/after_install" "$tree/tmp/"
said=$(in_tree '/tmp/after_install /usr/local')
[ -z "$said" ] || fail "make install says: $said"

readme_program "$tree/root/hello.c"
line=$(grep '^cc hello.c' "$QUERN_SOURCE/README.md") || fail "README has no line that compiles"
said=$(in_tree "cd /root; $line") || fail "README's program does not build or start"
[ "$said" = "hello, world" ] || fail "README's program says: $said"

said=$(in_tree "quern enqueue greet World --id first --retention 1h
    quern work --quiet --exec 'greet=read -r name; echo \"hello, \$name\"' --drain
    quern task inspect first --result" 2>"$tree/tmp/log") || fail "quern: $(cat "$tree/tmp/log")"
[ "$said" = "first
hello, World" ] || fail "quern says: $said"
