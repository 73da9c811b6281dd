// An allocator for LD_PRELOAD, which ends the program at a block that isn't its own.
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

// Before each block.
typedef struct {
  uint64_t mark;
  size_t size;
  void *start;
  void *unused;
} Head;
static const uint64_t kMark = 0xfeedfacecafe1234;

static Head *headOf(void *block) {
  Head *head = (Head *)block - 1;
  if (head->mark != kMark)
    abort();
  return head;
}

void *memalign(size_t alignment, size_t size) {
  if (alignment < sizeof(Head))
    alignment = sizeof(Head);
  char *start = size + alignment < size ? NULL : __libc_memalign(alignment, size + alignment);
  if (!start) {
    errno = ENOMEM;
    return NULL;
  }
  Head *head = (Head *)(start + alignment) - 1;
  *head = (Head){kMark, size, start, NULL};
  return head + 1;
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **block, size_t alignment, size_t size) {
  void *made = memalign(alignment, size);
  if (made)
    *block = made;
  return made ? 0 : ENOMEM;
}

void *malloc(size_t size) { return memalign(sizeof(Head), size); }

void *calloc(size_t count, size_t size) {
  void *made = size && count > SIZE_MAX / size ? NULL : malloc(count * size);
  return made ? memset(made, 0, count * size) : NULL;
}

void free(void *block) {
  if (!block)
    return;
  Head *head = headOf(block);
  head->mark = 0;
  __libc_free(head->start);
}

void *realloc(void *block, size_t size) {
  if (!block)
    return malloc(size);
  const size_t before = headOf(block)->size;
  void *made = malloc(size);
  if (!made)
    return NULL;
  memcpy(made, block, before < size ? before : size);
  free(block);
  return made;
}
