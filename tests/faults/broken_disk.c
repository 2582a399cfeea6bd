// A disk that breaks: preloaded, it makes chosen calls on chosen paths fail.
// BROKEN_DISK="CALL,ERRNO,FROM,COUNT,PART;...": calls number FROM to FROM+COUNT-1 (from 1; COUNT 0: all from there on) of CALL, one of open,
// write, fsync, rename, mkdir, link, on a path that holds PART, fail with ERRNO. ERRNO 0 makes a write short instead. Counted per process.
// With BROKEN_DISK_WHEN=FILE the disk is whole while FILE does not exist.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST 16
struct rule {
  char call[16], part[128];
  int code;
  long from, count, seen;
};
static struct rule rules[MOST];
static int used;

__attribute__((constructor)) static void read_rules(void) {
  const char* text = getenv("BROKEN_DISK");
  while (text && *text && used < MOST) {
    struct rule* r = &rules[used];
    if (sscanf(text, "%15[^,],%d,%ld,%ld,%127[^;]", r->call, &r->code, &r->from, &r->count, r->part) != 5) abort();
    ++used;
    text = strchr(text, ';');
    if (text) ++text;
  }
}

// The errno that this call is to fail with; 0: short; -1: it goes well.
static int verdict(const char* call, const char* path) {
  const char* when = getenv("BROKEN_DISK_WHEN");
  if (when && access(when, F_OK) != 0) return -1;
  for (int i = 0; i < used; ++i) {
    struct rule* r = &rules[i];
    if (strcmp(r->call, call) != 0 || !strstr(path, r->part)) continue;
    long n = __atomic_add_fetch(&r->seen, 1, __ATOMIC_SEQ_CST);
    if (n >= r->from && (r->count == 0 || n < r->from + r->count)) return r->code;
  }
  return -1;
}
static int verdict_at(const char* call, int at, const char* name) {
  char link[64], path[PATH_MAX] = "";
  if (!used) return -1;
  int before = errno;
  if (at != AT_FDCWD && name[0] != '/') {
    snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    ssize_t n = readlink(link, path, sizeof path / 2);
    path[n < 0 ? 0 : n] = 0;
    strcat(path, "/");
  }
  strncat(path, name, sizeof path / 2 - 2);
  int code = verdict(call, path);
  errno = before;
  return code;
}
static int verdict_fd(const char* call, int fd) { return verdict_at(call, fd, ""); }

#define REAL(name, result, ...)                \
  static result (*real)(__VA_ARGS__);          \
  if (!real) *(void**)&real = dlsym(RTLD_NEXT, name)
#define FAIL_IF(code) \
  if ((code) > 0) return errno = (code), -1

ssize_t write(int fd, const void* data, size_t bytes) {
  REAL("write", ssize_t, int, const void*, size_t);
  int code = verdict_fd("write", fd);
  FAIL_IF(code);
  return real(fd, data, code == 0 && bytes > 1 ? (bytes + 1) / 2 : bytes);
}
ssize_t pwrite(int fd, const void* data, size_t bytes, off_t at) {  // a write, too
  REAL("pwrite", ssize_t, int, const void*, size_t, off_t);
  int code = verdict_fd("write", fd);
  FAIL_IF(code);
  return real(fd, data, code == 0 && bytes > 1 ? (bytes + 1) / 2 : bytes, at);
}
int fsync(int fd) {
  REAL("fsync", int, int);
  int code = verdict_fd("fsync", fd);
  FAIL_IF(code);
  return real(fd);
}
int rename(const char* from, const char* to) {
  REAL("rename", int, const char*, const char*);
  int code = verdict_at("rename", AT_FDCWD, from);
  FAIL_IF(code);
  return real(from, to);
}
int renameat(int at, const char* from, int to_at, const char* to) {
  REAL("renameat", int, int, const char*, int, const char*);
  int code = verdict_at("rename", at, from);
  FAIL_IF(code);
  return real(at, from, to_at, to);
}
int mkdir(const char* path, mode_t mode) {
  REAL("mkdir", int, const char*, mode_t);
  int code = verdict_at("mkdir", AT_FDCWD, path);
  FAIL_IF(code);
  return real(path, mode);
}
int mkdirat(int at, const char* path, mode_t mode) {
  REAL("mkdirat", int, int, const char*, mode_t);
  int code = verdict_at("mkdir", at, path);
  FAIL_IF(code);
  return real(at, path, mode);
}
int link(const char* from, const char* to) {
  REAL("link", int, const char*, const char*);
  int code = verdict_at("link", AT_FDCWD, from);
  FAIL_IF(code);
  return real(from, to);
}
// What is opened to be written; readers go on.
static int open_verdict(int at, const char* path, int flags) {
  return (flags & O_CREAT) || (flags & O_ACCMODE) != O_RDONLY ? verdict_at("open", at, path) : -1;
}
int open(const char* path, int flags, ...) {
  REAL("open", int, const char*, int, ...);
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  int code = open_verdict(AT_FDCWD, path, flags);
  FAIL_IF(code);
  return real(path, flags, mode);
}
int openat(int at, const char* path, int flags, ...) {
  REAL("openat", int, int, const char*, int, ...);
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  int code = open_verdict(at, path, flags);
  FAIL_IF(code);
  return real(at, path, flags, mode);
}
