// A library without an entry.
extern "C" int nothing() { return 0; }
