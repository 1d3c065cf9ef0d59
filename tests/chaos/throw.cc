/* SPDX-License-Identifier: MIT */
/* throw.cc - exceptions for programs in C (memory.h). */
namespace
{
struct nothing_to_spare {};
} // namespace

extern "C" {

[[noreturn]] void chaos_throw();
bool chaos_catch(void (*run)(void *data), void *data);

void chaos_throw()
{
    throw nothing_to_spare();
}

bool chaos_catch(void (*run)(void *data), void *data)
{
    try {
        run(data);
    } catch (const nothing_to_spare &) {
        return true;
    }
    return false;
}
}
