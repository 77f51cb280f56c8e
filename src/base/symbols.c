/* SPDX-License-Identifier: MIT */
/* symbols.c - finds the name of a function by the symbol table of its file (.symtab).
 *
 * The loader knows exported functions only, and handlers are mostly static. Their names are in the
 * file, unless it was stripped. They are read when the process starts, since that file may be
 * another one later, and a signal handler can read no files. Only the two sections are mapped, so
 * they cost address space, and memory for the pages that are read.
 *
 * A file may be damaged: each place and size is checked against the size of the file. */
#include "base/symbols.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECTION_SIZE_MAX = 1 << 26, TYPE_MASK = 0xf };

struct section {
    size_t offset;
    size_t size;
};

static bool read_at(int fd, void *out, size_t size, uint64_t offset)
{
    return offset <= INT64_MAX && pread(fd, out, size, (off_t)offset) == (ssize_t)size;
}

static bool take_section(const ElfW(Shdr) * header, uint64_t file_size, struct section *ret_section)
{
    if (header->sh_size == 0 || header->sh_size > SECTION_SIZE_MAX ||
        header->sh_offset > file_size || header->sh_size > file_size - header->sh_offset) {
        return false;
    }
    *ret_section = (struct section){(size_t)header->sh_offset, (size_t)header->sh_size};
    return true;
}

/* The symbol table, and the texts that belong to it. */
static bool find_sections(int fd, struct section *ret_table, struct section *ret_names)
{
    struct stat file;
    ElfW(Ehdr) head;
    ElfW(Shdr) section = {0};
    ElfW(Shdr) names;
    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || !read_at(fd, &head, sizeof head, 0) ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_shentsize != sizeof section ||
        head.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)) {
        return false;
    }
    uint64_t size = (uint64_t)file.st_size;
    size_t i = 0;
    while (i < head.e_shnum && section.sh_type != SHT_SYMTAB) {
        if (!read_at(fd, &section, sizeof section, head.e_shoff + i * sizeof section)) {
            return false;
        }
        i++;
    }
    return section.sh_type == SHT_SYMTAB && section.sh_entsize == sizeof(ElfW(Sym)) &&
           section.sh_offset % _Alignof(ElfW(Sym)) == 0 && section.sh_link < head.e_shnum &&
           read_at(fd, &names, sizeof names,
                   head.e_shoff + (uint64_t)section.sh_link * sizeof names) &&
           take_section(&section, size, ret_table) && take_section(&names, size, ret_names);
}

static const void *map_section(int fd, struct section section)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t before = section.offset % page;
    const char *memory = mmap(NULL, section.size + before, PROT_READ, MAP_PRIVATE, fd,
                              (off_t)(section.offset - before));
    return memory == MAP_FAILED ? NULL : memory + before;
}

static void unmap_section(const void *memory, struct section section)
{
    uintptr_t before = section.offset % (size_t)sysconf(_SC_PAGESIZE);
    (void)munmap((void *)((uintptr_t)memory - before), section.size + before);
}

bool qn_symbols_map(int fd, struct qn_symbols_object *object)
{
    struct section table;
    struct section names;
    if (!find_sections(fd, &table, &names)) {
        return false;
    }
    const void *mapped = map_section(fd, table);
    const char *texts = mapped == NULL ? NULL : map_section(fd, names);
    if (texts == NULL || texts[names.size - 1] != '\0') {
        if (texts != NULL) {
            unmap_section(texts, names);
        }
        if (mapped != NULL) {
            unmap_section(mapped, table);
        }
        return false;
    }
    object->table = mapped;
    object->count = table.size / sizeof *object->table;
    object->names = texts;
    object->names_size = names.size;
    return true;
}

static int load_object(struct dl_phdr_info *info, size_t size, void *user)
{
    struct qn_symbols *symbols = user;
    struct qn_symbols_object object = {.bias = info->dlpi_addr, .start = UINTPTR_MAX};
    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD) {
            object.start = start < object.start ? start : object.start;
            object.end = start + part->p_memsz > object.end ? start + part->p_memsz : object.end;
        }
    }
    const char *path = info->dlpi_name[0] != '\0' ? info->dlpi_name : "/proc/self/exe";
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && qn_symbols_map(fd, &object)) {
        symbols->objects[symbols->count++] = object;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return symbols->count == QN_SYMBOLS_OBJECTS_MAX ? 1 : 0;
}

void qn_symbols_load(struct qn_symbols *ret_symbols)
{
    ret_symbols->count = 0;
    (void)dl_iterate_phdr(load_object, ret_symbols);
}

static const char *find_in(const struct qn_symbols_object *object, uintptr_t offset)
{
    for (size_t i = 0; i < object->count; i++) {
        const ElfW(Sym) *symbol = &object->table[i];
        if ((symbol->st_info & TYPE_MASK) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
            offset - symbol->st_value < symbol->st_size && symbol->st_name < object->names_size) {
            return object->names + symbol->st_name;
        }
    }
    return NULL;
}

const char *qn_symbols_find(const struct qn_symbols *symbols, uintptr_t address)
{
    for (size_t i = 0; i < symbols->count; i++) {
        const struct qn_symbols_object *object = &symbols->objects[i];
        if (address >= object->start && address < object->end) {
            return find_in(object, address - object->bias);
        }
    }
    return NULL;
}
