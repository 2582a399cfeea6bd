// Loaded before a program (LD_PRELOAD): libraries that it closes stay. LeakSanitizer looks at the end of a
// process, and can name, and leave out by its list, what a plugin of MPI's allocated only while it is loaded.
int dlclose(void* library) {
  (void)library;
  return 0;
}
