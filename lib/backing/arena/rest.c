/* SPDX-License-Identifier: MIT */
#include "lib/backing/arena/rest.h"

bool weir__rest_note(struct weir__pages *pages, uint64_t bytes)
{
    const uint64_t patience = WEIR__REST_MISSES * WEIR__REST_REQUESTS;
    const struct weir__extents *own = &pages->extents, *other = pages->other ? &pages->other->extents : NULL;
    uint64_t live = own->live_bytes + bytes, complete = own->complete_bytes + (other ? other->complete_bytes : 0);
    uint64_t now = own->taken_count, debt = WEIR__REST_REQUESTS + (pages->calm_at > now ? pages->calm_at - now : 0);
    if (live > pages->live_high) {
        pages->live_high = live;
        pages->calm_at = 0;
        return false;
    }
    if (complete < bytes)
        return false;
    if (debt > 2 * patience)
        debt = 2 * patience;
    pages->calm_at = now + debt;
    return debt > patience && complete <= live + (other ? other->live_bytes : 0);
}
