/* SPDX-License-Identifier: MIT */
/* Device.h - a stand-in for torch's, for recorded.cc. */
#ifndef WEIR_TESTS_C10_DEVICE_H
#define WEIR_TESTS_C10_DEVICE_H

#include <cstdint>

namespace c10 {

using DeviceIndex = int8_t;

} // namespace c10

#endif
