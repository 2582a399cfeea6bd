// Preloaded into a rank: changes one bit of one message of at least FLIP_BYTES that leaves it through a socket, the FLIP_AT-th such one.
// The rank is FLIP_RANK.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static long number(const char* name, long otherwise) {
  const char* text = getenv(name);
  return text ? atol(text) : otherwise;
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  static ssize_t (*real)(int, const struct iovec*, int);
  static int sent;
  if (!real) real = (ssize_t(*)(int, const struct iovec*, int))dlsym(RTLD_NEXT, "writev");
  struct stat about;
  size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += parts[i].iov_len;
  const char* rank = getenv("OMPI_COMM_WORLD_RANK");
  if (rank && atol(rank) == number("FLIP_RANK", 1) && bytes >= (size_t)number("FLIP_BYTES", 1000) && fstat(fd, &about) == 0 &&
      S_ISSOCK(about.st_mode) && ++sent == number("FLIP_AT", 40)) {
    const struct iovec last = parts[count - 1];
    unsigned char* copy = malloc(last.iov_len);
    memcpy(copy, last.iov_base, last.iov_len);
    copy[last.iov_len - 5] ^= 0x10;  // of the payload: headers come first
    struct iovec changed[64];
    memcpy(changed, parts, (size_t)count * sizeof *parts);
    changed[count - 1].iov_base = copy;
    const ssize_t out = real(fd, changed, count);
    free(copy);
    return out;
  }
  return real(fd, parts, count);
}
