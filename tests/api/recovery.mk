## SPDX-License-Identifier: MIT
