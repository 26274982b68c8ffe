#pragma once

namespace muster {

// Takes the places of standard input, output and error that the starter of this process left closed, so that no file
// or socket opened later gets their numbers and what is meant for people. What stands there can be read (empty) and
// not written: a lost output is noticed as before (EBADF). To be called before anything is opened.
void HoldStandardFds();

}  // namespace muster
