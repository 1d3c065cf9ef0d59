/* SPDX-License-Identifier: MIT */
/* Exception.h - a stand-in for torch's, for recorded.cc, which has its warnings. */
#ifndef WEIR_TESTS_C10_EXCEPTION_H
#define WEIR_TESTS_C10_EXCEPTION_H

#include <sstream>
#include <stdexcept>
#include <string>

#define C10_UNLIKELY(condition) __builtin_expect(static_cast<bool>(condition), 0)
#define C10_NOINLINE __attribute__((noinline))
#define TORCH_CHECK(condition, ...) ((condition) ? (void)0 : throw std::runtime_error(c10::joined(__VA_ARGS__)))
#define TORCH_WARN(...) c10::warn(c10::joined(__VA_ARGS__))

namespace c10 {

void warn(const std::string &text);

template <typename... Parts> std::string joined(const Parts &...parts)
{
    std::ostringstream text;
    (text << ... << parts);
    return text.str();
}

} // namespace c10

#endif
