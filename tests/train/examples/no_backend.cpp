// A shared library that is no backend.
extern "C" int something_else() { return 1; }
