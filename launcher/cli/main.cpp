// trainrun: the command line, as a program.
#include <iostream>

#include "launcher/cli/commands.h"

int main(int argc, char** argv) {
  return lockstep::launcher::cli::trainrun({argv + 1, argv + argc}, std::cout, std::cerr);
}
