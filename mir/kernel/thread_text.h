#pragma once

// Text of thread programs, also one statement at a time: messages of the interpreter quote it.

#include <string>

#include "mir/kernel/thread_program.h"

namespace aicf {

/// One line without indentation; loops and branches print their head only ("for kv in 0..n step 8").
std::string statement_text(const ThreadStatement& statement);

}  // namespace aicf
