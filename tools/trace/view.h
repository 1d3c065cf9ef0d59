/* SPDX-License-Identifier: MIT */
/*
 * view.h - what the views of `weir trace` share: the files that they are of, the words for what is in a trace, and who holds memory.
 *
 * The files belong to trace.c, which opens and closes them. Texts of a trace come from strangers: none reaches a terminal but through
 * SHOWN().
 */
#ifndef WEIR_TRACE_VIEW_H
#define WEIR_TRACE_VIEW_H

#include "tools/common/format.h"
#include "tools/common/json.h"
#include "tools/common/utf8.h"
#include "trace/merge.h"
#include "trace/model.h"
#include "trace/symbols.h"

struct view_file {
    struct trace trace;
    uint64_t shift;          /* how much later than the earliest of all files this one was started, in ns; 0 where the clock is not known */
    bool is_bad;             /* it could not be read to its end */
    struct symbols *symbols; /* NULL: nobody asked for a function yet */
};

/* One call of a view. */
struct view {
    struct view_file *files;
    size_t count;
    struct json *json; /* NULL: words */
    size_t limit;      /* rows of a list */
    bool has_limit;    /* it was asked for */
    const char *at;    /* NULL: the end */
    const char *since; /* of leaks; NULL: the beginning */
    bool is_collapsed;
    struct {
        const char *output;          /* the file to write; NULL: none was named */
        const char *const *policies; /* files of policies to replay under */
        size_t policy_count;
        const char *tune; /* what weir tune --json wrote; NULL: none */
    } page;
};

/* Shows one file, whose heading stands already; returns an exit status. */
typedef int view_file_fn(const struct view *view, struct view_file *file);
view_file_fn view_summary, view_peak, view_leaks, view_live, view_tags, view_stacks, view_events;
view_file_fn view_why; /* of replay/why.c, as it replays */

/* Shows all files; returns an exit status. */
int view_waits(const struct view *view);
int view_plot(const struct view *view);
int view_page(const struct view *view); /* of page/page.c, as it replays */
/* Each file, with its heading and what is lost of it. */
int view_each(const struct view *view, view_file_fn *show);

/* Words ---------------------------------------------------------------------------------------------------------------------------------
 */

/* A time of the file since the first file was started; as all times are written. */
uint64_t view_shifted(const struct view_file *file, uint64_t time);
const char *view_moment(char text[WEIR__TIME_LEN], const struct view_file *file, uint64_t time);
#define MOMENT_TEXT(file, time) view_moment((char[WEIR__TIME_LEN]){0}, (file), (time))

/* A column of times, one below the other, zeroed at its beginning. Where three digits would say the same as the row above of another time,
   a row has as many more as tell the two apart. */
struct view_moments {
    uint64_t above;
    unsigned digits; /* of the row above; 0: there is none */
};

/* The next row. */
const char *view_moment_below(char text[WEIR__TIME_LEN], struct view_moments *column, uint64_t time);
/* How many columns of a terminal it takes. */
int view_columns(const char *time);
/* Prints the next row, of a time of the file, at the right of so many columns. */
void view_print_moment(struct view_moments *column, const struct view_file *file, uint64_t time, int width);

/* The name by which the stream was opened, with its handle if several were opened by it; the handle of one without a name. */
const char *view_stream(char buffer[SHOWN_LEN], uint64_t stream, const struct trace_text *name);
#define STREAM_TEXT(stream, name) view_stream((char[SHOWN_LEN]){0}, (stream), (name))

/* "main on device 1"; for private pools, whose names are not unique, with their ids. */
const char *view_pool(char buffer[SHOWN_LEN], const struct trace_pool *pool);
#define POOL_TEXT(pool) view_pool((char[SHOWN_LEN]){0}, (pool))

/* The heading of a file, if there is more than one, or what the view needs to say of it; opens its object, with what identifies it. */
void view_file_begin(const struct view *view, const struct view_file *file);
void view_file_end(const struct view *view);
/* On stderr or, with JSON, in the document: what is lost of the file. */
void view_say_losses(const struct view *view, const struct view_file *file);
/* Names of the members of pools, for JSON. */
void view_json_pool(struct json *json, const struct trace_pool *pool);
void view_json_stream(struct json *json, uint64_t stream, const struct trace_text *name);
/* An array of marks or failures, each so many ns later than its file has it. */
void view_json_moments(struct json *json, const char *key, uint64_t shift, const struct model_moment *moments, size_t count);
/* A handle or an address, in hexadecimal. */
void view_json_handle(struct json *json, const char *key, uint64_t handle);
enum { FRAME_TEXT_LEN = 512 };

/*
 * "forward (model.py:42)", "launch (kernels.cu:7)", "libexample.so.1+0x1234", or "0x7f0000001234" where no module is known. May have any
 * byte but 0.
 */
const char *trace_frame_text(char buffer[FRAME_TEXT_LEN], struct symbols *symbols, const struct trace_frame *frame);
/* The frames of a stack, below each other or as an array. At most `limit` lines; 0: all. */
void view_print_stack(struct view_file *file, const struct trace_stack *stack, const char *indent, size_t limit);
void view_json_stack(struct json *json, struct view_file *file, const struct trace_stack *stack);
/* The frame that called CUDA, "step (model.cu:88)", as SHOWN() has it: the first behind those of CUDA's own libraries. */
const char *view_place(char buffer[SHOWN_LEN], struct view_file *file, const struct trace_stack *stack);
/* One frame as SHOWN() has it. */
const char *view_frame(char buffer[SHOWN_LEN], struct view_file *file, const struct trace_frame *frame);

/* Of a trace of an unaware program, once it was played: whether its memory is the segments of PyTorch's own allocator, by the library that has
   that; and what to do then. */
bool view_has_segments(const struct trace *trace);
#define VIEW_SEGMENTS                                                                                                                      \
    "PyTorch's own allocator ran in this program: the trace has its segments, not the tensors in them. To see these, import a memory "      \
    "snapshot with 'python3 -m weir.trace import', or run the program on Weir with 'weir run'."

/* Moments -------------------------------------------------------------------------------------------------------------------------------
 */

/* trace_play() of the file. false, after a complaint: it could not be read. */
bool view_hear(struct view_file *file, trace_event_fn *look, void *context);
/* The same into an empty model: the first `events` of it. */
bool view_play(struct view_file *file, struct model *model, uint64_t events);
#define VIEW_ALL UINT64_MAX

/* A time, as "1.5", "1.5s" or "300ms", since the first file was started, in ns. false: it is none. */
bool view_read_time(const char *text, uint64_t *ns);

/* Holders -------------------------------------------------------------------------------------------------------------------------------
 */

enum { BY_TAG = 1, BY_STACK = 2, BY_POOL = 4, BY_STREAM = 8, BY_SIZE = 16 };

/* Live blocks with the same of what they were asked for. */
struct holder {
    const struct trace_pool *pool;
    const struct trace_text *tag;
    const struct trace_stack *stack;
    const struct trace_text *stream_name; /* NULL: none is known */
    uint64_t stream, size;
    uint64_t blocks, bytes, given, oldest; /* bytes that were asked for; the time of the oldest block */
};

/* By what parts says, those with the most bytes first. The caller's to free. */
struct holder *view_holders(const struct model *model, unsigned parts, size_t *count);

/* Prints who has what, in each of the ways, at the moment that the model is at. */
void view_print_holders(const struct view *view, struct view_file *file, const struct model *model, uint64_t time);

#endif
