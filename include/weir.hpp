/* SPDX-License-Identifier: MIT */
/*
 * weir.hpp - weir.h for C++17: objects that own their handles, results instead of output arguments, and memory resources for CCCL's
 * cuda::mr, which RMM takes, and for std::pmr. Header only: a program links libweir as before. libweir(3) has a tour, examples/embed.cpp a
 * whole program.
 *
 *     weirpp::weir w = weirpp::weir::open().value();                      throws weirpp::exception
 *     weirpp::stream work = w.create_stream(0).value();
 *     if (weirpp::result<weirpp::block> frame = work.allocate(64 << 20))  throws nothing
 *         use(frame->get());
 *     else
 *         complain(frame.text());
 *
 * Rules that hold for everything here, beside those of weir.h:
 *  - Every function that can fail is noexcept and returns a result. Only value(), the memory resources, and the function given to
 *    weir::leaks() throw. In a program without exceptions they call std::terminate() instead.
 *  - Callbacks and log functions come as oom_callback and logger, which catch what they throw. An exception that a function registered with
 *    weir_oom_add() or weir_options.log throws passes through weir.h's functions, and ends the program in the noexcept ones here.
 *  - A weir outlives its streams, pools and blocks, and a stream the blocks that were allocated on it; an exporter its rings, and those
 *    their slots; an importer its readers and leases. Objects of one scope that are declared in that order end in the right one. close() and
 *    release() end or give up ownership earlier.
 *  - Objects can be moved and not copied. One that was moved from, or made without arguments, owns nothing; it can be destroyed, or assigned
 *    to.
 *  - Names are in `weirpp`, as `weir` is the type of weir.h, which each object gives by get().
 */
#ifndef WEIR_WEIR_HPP
#define WEIR_WEIR_HPP

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#if defined(__GLIBCXX__)
#include <cxxabi.h>
#endif

#include "weir.h"
#include "weir_sleep.h"

namespace weirpp
{
/* Stream 0 has two meanings (see weir.h), and code that was compiled with one of them does not stand for the other's. */
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
inline namespace per_thread
{
#else
inline namespace legacy
{
#endif

/* Errors ------------------------------------------------------------------------------------------------------------------------------- */

/* What value() throws. what() is the text of the error. */
class WEIR_API exception : public std::exception
{
  public:
    explicit exception(const weir_error &error) noexcept : error_(error)
    {
    }

    /* Never WEIR_OK. */
    weir_status status() const noexcept
    {
        return error_.status;
    }

    /* The whole record, with CUDA's code and the place in the policy. */
    const weir_error &error() const noexcept
    {
        return error_;
    }

    const char *what() const noexcept override
    {
        return error_.text[0] ? error_.text : weir_status_text(error_.status);
    }

  private:
    weir_error error_;
};

/* What memory resources throw where there is no memory, since their callers look for a std::bad_alloc. what() is the report. */
class WEIR_API out_of_memory : public std::bad_alloc
{
  public:
    explicit out_of_memory(const std::string &text) : text_(std::make_shared<const std::string>(text))
    {
    }

    const char *what() const noexcept override
    {
        return text_->c_str();
    }

  private:
    std::shared_ptr<const std::string> text_; /* a copy of an exception must not fail */
};

/* Why a call failed. */
class failure
{
  public:
    /* The record that the call has filled. */
    failure(weir_status status, const weir_error &error) noexcept : status_(status), error_(new (std::nothrow) weir_error(error))
    {
        if (error_)
            error_->status = status;
    }

    /* Of a call that leaves its record with the thread, as weir_malloc() does. */
    static failure last(weir_status status) noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        weir_last_error(&error);
        return failure(status, error);
    }

    weir_status status() const noexcept
    {
        return status_;
    }

    /* Never NULL. Without host memory for the record it is the text of the status. */
    const char *text() const noexcept
    {
        return error_ && error_->text[0] ? error_->text : weir_status_text(status_);
    }

    /* A copy of the record. */
    weir_error error() const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        if (error_)
            error = *error_;
        error.status = status_;
        return error;
    }

    /* Throws it as an exception. */
    [[noreturn]] void raise() const
    {
#if defined(__cpp_exceptions)
        throw exception(error());
#else
        std::terminate();
#endif
    }

  private:
    weir_status status_;
    std::unique_ptr<weir_error> error_; /* NULL: there was no host memory for it */
};

/* What a call gives: a T, or why there is none. */
template <class T> class [[nodiscard]] result
{
  public:
    result(T value) noexcept : value_(std::move(value))
    {
    }
    result(failure why) noexcept : failure_(std::move(why))
    {
    }

    explicit operator bool() const noexcept
    {
        return value_.has_value();
    }

    /* WEIR_OK, or why there is no value; the same in words ("success"). */
    weir_status status() const noexcept
    {
        return failure_ ? failure_->status() : WEIR_OK;
    }
    const char *text() const noexcept
    {
        return failure_ ? failure_->text() : weir_status_text(WEIR_OK);
    }

    /* The whole record; its status is WEIR_OK where there is a value. */
    weir_error error() const noexcept
    {
        weir_error none = WEIR_ERROR_INIT;
        return failure_ ? failure_->error() : none;
    }

    /* The value; throws weirpp::exception where there is none. */
    T &value() &
    {
        check();
        return *value_;
    }
    T value() &&
    {
        check();
        return std::move(*value_);
    }

    const T &value() const &
    {
        check();
        return *value_;
    }

    /* The value, only where the result is true. */
    T &operator*() & noexcept
    {
        return *value_;
    }
    const T &operator*() const & noexcept
    {
        return *value_;
    }
    T operator*() && noexcept
    {
        return std::move(*value_);
    }
    T *operator->() noexcept
    {
        return &*value_;
    }
    const T *operator->() const noexcept
    {
        return &*value_;
    }

  private:
    void check() const
    {
        if (failure_)
            failure_->raise();
    }

    std::optional<T> value_;
    std::optional<failure> failure_;
};

/* Of a call that gives nothing else. */
template <> class [[nodiscard]] result<void>
{
  public:
    result() noexcept = default;
    result(failure why) noexcept : failure_(std::move(why))
    {
    }

    explicit operator bool() const noexcept
    {
        return !failure_;
    }
    weir_status status() const noexcept
    {
        return failure_ ? failure_->status() : WEIR_OK;
    }
    const char *text() const noexcept
    {
        return failure_ ? failure_->text() : weir_status_text(WEIR_OK);
    }
    weir_error error() const noexcept
    {
        weir_error none = WEIR_ERROR_INIT;
        return failure_ ? failure_->error() : none;
    }

    /* Throws weirpp::exception if the call failed. */
    void value() const
    {
        if (failure_)
            failure_->raise();
    }

  private:
    std::optional<failure> failure_;
};

/* Blocks ------------------------------------------------------------------------------------------------------------------------------- */

/*
 * A block of memory. Its destructor frees it in the order of the stream that it was allocated on, which has to be alive: behind all work
 * that is on that stream by then. Work on other streams is the caller's to order before that. A destructor has nobody to tell of a failure:
 * the block stays live then, and weir_close() logs it. free() tells.
 */
class block
{
  public:
    block() noexcept = default;
    block(block &&other) noexcept
        : w_(other.w_), stream_(other.stream_), handle_(other.handle_), size_(other.size_), ptr_(other.release())
    {
    }
    block &operator=(block &&other) noexcept
    {
        block former(std::move(other));
        swap(former);
        return *this;
    }
    ~block()
    {
        if (ptr_)
            (void)free();
    }

    /* Takes a block of weir_malloc() over, to be freed on that stream. */
    block(::weir *w, void *ptr, std::size_t size, weir_cuda_stream stream) noexcept : w_(w), handle_(stream), size_(size), ptr_(ptr)
    {
    }

    /* The same of weir_stream_malloc(). */
    block(::weir *w, void *ptr, std::size_t size, weir_stream *stream) noexcept : w_(w), stream_(stream), size_(size), ptr_(ptr)
    {
    }

    /* NULL: it owns nothing, or is of size 0. */
    void *get() const noexcept
    {
        return ptr_;
    }

    /* Bytes asked for. */
    std::size_t size() const noexcept
    {
        return size_;
    }

    explicit operator bool() const noexcept
    {
        return ptr_ != nullptr;
    }

    /* Frees the block now, on its own stream, or on any stream that is behind every use of it. If that fails the block stays owned; its
       statuses are those of weir_free(). */
    result<void> free() noexcept
    {
        return freed(stream_ ? weir_stream_free(stream_, ptr_) : weir_free(w_, ptr_, handle_));
    }
    result<void> free_on(weir_cuda_stream stream) noexcept
    {
        return freed(weir_free(w_, ptr_, stream));
    }

    /* The pointer, which is the caller's to free with weir_free() from now on. */
    void *release() noexcept
    {
        size_ = 0;
        return std::exchange(ptr_, nullptr);
    }

    void swap(block &other) noexcept
    {
        std::swap(w_, other.w_);
        std::swap(stream_, other.stream_);
        std::swap(handle_, other.handle_);
        std::swap(size_, other.size_);
        std::swap(ptr_, other.ptr_);
    }

  private:
    result<void> freed(weir_status status) noexcept
    {
        if (ptr_ && status != WEIR_OK)
            return failure::last(status);
        release();
        return {};
    }

    ::weir *w_ = nullptr;
    weir_stream *stream_ = nullptr;     /* NULL: `handle_` is the stream */
    weir_cuda_stream handle_ = nullptr;
    std::size_t size_ = 0;
    void *ptr_ = nullptr; /* the last member: release() comes after all others are copied */
};

/* Sharing between processes ------------------------------------------------------------------------------------------------------------ */

/* What owns a thing of weir.h, and ends it in its destructor. */
template <class Thing, void (*ends)(Thing *)> class owner
{
  public:
    owner() noexcept = default;
    explicit owner(Thing *thing) noexcept : thing_(thing)
    {
    }
    owner(owner &&other) noexcept : thing_(other.release())
    {
    }
    owner &operator=(owner &&other) noexcept
    {
        owner former(std::move(other));
        std::swap(thing_, former.thing_);
        return *this;
    }
    ~owner()
    {
        close();
    }

    Thing *get() const noexcept
    {
        return thing_;
    }
    explicit operator bool() const noexcept
    {
        return thing_ != nullptr;
    }
    void close() noexcept
    {
        ends(std::exchange(thing_, nullptr));
    }

    /* The thing, which is the caller's to end from now on. */
    Thing *release() noexcept
    {
        return std::exchange(thing_, nullptr);
    }

  private:
    Thing *thing_ = nullptr;
};

/* The use of a block, or of a frame, of another process. Its destructor ends it on the stream that it came on, which has to be alive, behind all
   work that is on that stream by then, and has nobody to tell of a failure; end() tells. Its importer outlives it. */
class lease
{
  public:
    lease() noexcept = default;
    lease(weir_lease *leased, weir_cuda_stream stream) noexcept : stream_(stream), lease_(leased)
    {
    }
    lease(lease &&other) noexcept : stream_(other.stream_), lease_(other.release())
    {
    }
    lease &operator=(lease &&other) noexcept
    {
        lease former(std::move(other));
        std::swap(stream_, former.stream_);
        std::swap(lease_, former.lease_);
        return *this;
    }
    ~lease()
    {
        (void)end();
    }

    /* Of one that is owned. */
    const weir_lease_info &info() const noexcept
    {
        return *weir_lease_get_info(lease_);
    }
    const void *data() const noexcept
    {
        return info().ptr;
    }
    std::size_t size() const noexcept
    {
        return info().size;
    }
    explicit operator bool() const noexcept
    {
        return lease_ != nullptr;
    }
    weir_lease *get() const noexcept
    {
        return lease_;
    }

    /* weir_lease_release(), on its own stream or on any that is behind every use of it. If that fails the lease stays owned. */
    result<void> end() noexcept
    {
        return end_on(stream_);
    }
    result<void> end_on(weir_cuda_stream stream) noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        weir_status status = weir_lease_release(lease_, stream, &error);
        if (status != WEIR_OK)
            return failure(status, error);
        lease_ = nullptr;
        return {};
    }

    /* The lease, which is the caller's to end from now on. */
    weir_lease *release() noexcept
    {
        return std::exchange(lease_, nullptr);
    }

  private:
    weir_cuda_stream stream_ = nullptr;
    weir_lease *lease_ = nullptr;
};

/* An importer's place in a ring. It follows the name of its ring: see weir_reader_open(). */
class reader : public owner<weir_reader, weir_reader_close>
{
  public:
    using owner::owner;

    /* weir_reader_next(). */
    result<lease> next(unsigned timeout_ms, weir_cuda_stream stream) const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        weir_lease *leased = nullptr;
        weir_status status = weir_reader_next(get(), timeout_ms, stream, &error, &leased);
        if (status != WEIR_OK)
            return failure(status, error);
        return lease(leased, stream);
    }

    /* weir_reader_fd(). */
    result<int> fd() const noexcept
    {
        int fd = weir_reader_fd(get());
        if (fd >= 0)
            return fd;
        weir_error error = WEIR_ERROR_INIT;
        weir_last_error(&error);
        return failure(error.status, error);
    }
};

/* A connection to the pool of another process: weir::open_import(). It outlives its readers and leases. */
class importer : public owner<weir_import, weir_import_close>
{
  public:
    using owner::owner;

    /* weir_import_acquire(). */
    result<lease> acquire(const char *name, unsigned timeout_ms, weir_cuda_stream stream) const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        weir_lease *leased = nullptr;
        weir_status status = weir_import_acquire(get(), name, timeout_ms, stream, &error, &leased);
        if (status != WEIR_OK)
            return failure(status, error);
        return lease(leased, stream);
    }

    /* weir_reader_open(). */
    result<reader> open_reader(const char *ring, unsigned leases = 2) const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        weir_reader *opened = nullptr;
        weir_status status = weir_reader_open(get(), ring, leases, &error, &opened);
        if (status != WEIR_OK)
            return failure(status, error);
        return reader(opened);
    }
};

/* The next frame, to be written by work on its stream. Its destructor drops it, unless it was pushed. Its ring outlives it. */
class slot
{
  public:
    slot() noexcept = default;
    slot(weir_ring *of, void *ptr, weir_cuda_stream stream) noexcept : ring_(of), stream_(stream), ptr_(ptr)
    {
    }
    slot(slot &&other) noexcept : ring_(other.ring_), stream_(other.stream_), ptr_(other.release())
    {
    }
    slot &operator=(slot &&other) noexcept
    {
        slot former(std::move(other));
        std::swap(ring_, former.ring_);
        std::swap(stream_, former.stream_);
        std::swap(ptr_, former.ptr_);
        return *this;
    }
    ~slot()
    {
        (void)drop();
    }

    void *get() const noexcept
    {
        return ptr_;
    }
    explicit operator bool() const noexcept
    {
        return ptr_ != nullptr;
    }

    /* weir_ring_push(), with the same arguments. If it fails this object still owns the slot. */
    result<void> push(std::size_t size = 0, const void *metadata = nullptr, std::size_t metadata_size = 0) noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        return given(weir_ring_push(ring_, ptr_, size, metadata, metadata_size, stream_, &error), error);
    }

    /* weir_ring_drop(). */
    result<void> drop() noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        return ptr_ ? given(weir_ring_drop(ring_, ptr_, stream_, &error), error) : result<void>();
    }

    /* The pointer, which is the caller's to push or to drop from now on. */
    void *release() noexcept
    {
        return std::exchange(ptr_, nullptr);
    }

  private:
    result<void> given(weir_status status, const weir_error &error) noexcept
    {
        if (status != WEIR_OK)
            return failure(status, error);
        ptr_ = nullptr;
        return {};
    }

    weir_ring *ring_ = nullptr;
    weir_cuda_stream stream_ = nullptr;
    void *ptr_ = nullptr;
};

/* Frames for readers: exporter::open_ring(). It outlives its slots. */
class ring : public owner<weir_ring, weir_ring_close>
{
  public:
    using owner::owner;

    /* weir_ring_take(). */
    result<slot> take(unsigned timeout_ms, weir_cuda_stream stream) const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        void *ptr = nullptr;
        weir_status status = weir_ring_take(get(), timeout_ms, stream, &error, &ptr);
        if (status != WEIR_OK)
            return failure(status, error);
        return slot(get(), ptr, stream);
    }

    /* weir_ring_wait(). */
    result<void> wait(unsigned timeout_ms) const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        weir_status status = weir_ring_wait(get(), timeout_ms, &error);
        if (status != WEIR_OK)
            return failure(status, error);
        return {};
    }

    unsigned readers() const noexcept
    {
        return weir_ring_readers(get());
    }
};

inline void close_export(weir_export *e) noexcept
{
    weir_export_close(e, 0);
}

/* A pool that other processes use: pool::open_export(). It outlives its rings. Its destructor waits for nobody; close() with a time does. */
class exporter : public owner<weir_export, close_export>
{
  public:
    using owner::owner;
    using owner::close;

    void close(unsigned timeout_ms) noexcept
    {
        weir_export_close(release(), timeout_ms);
    }

    /* weir_ring_open(), with the slots allocated in the order of the stream. */
    result<ring> open_ring(const char *name, const weir_ring_options &options, weir_cuda_stream stream) const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        weir_ring *opened = nullptr;
        weir_status status = weir_ring_open(get(), name, &options, stream, &error, &opened);
        if (status != WEIR_OK)
            return failure(status, error);
        return ring(opened);
    }

    /* weir_export_publish(): the block is the export's from then on. If that fails it stays with its owner. */
    result<void> publish(const char *name, block &&from, weir_cuda_stream stream, std::size_t size = 0, const void *metadata = nullptr,
                         std::size_t metadata_size = 0) const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        weir_status status = weir_export_publish(get(), name, from.get(), size, metadata, metadata_size, stream, &error);
        if (status != WEIR_OK)
            return failure(status, error);
        (void)from.release();
        return {};
    }

    /* weir_export_withdraw(). */
    result<void> withdraw(const char *name) const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        weir_status status = weir_export_withdraw(get(), name, &error);
        if (status != WEIR_OK)
            return failure(status, error);
        return {};
    }
};

/* Pools -------------------------------------------------------------------------------------------------------------------------------- */

/* A pool of the policy on one device: borrowed from its weir, and copied at will. */
class pool
{
  public:
    pool(::weir *w, weir_pool *borrowed) noexcept : w_(w), pool_(borrowed)
    {
    }

    /* weir_pool_malloc(). */
    result<block> allocate(std::size_t size, weir_cuda_stream stream) const noexcept
    {
        void *ptr;
        weir_status status = weir_pool_malloc(pool_, &ptr, size, stream);
        if (status != WEIR_OK)
            return failure::last(status);
        return block(w_, ptr, size, stream);
    }

    /* weir_pool_trim(): bytes that went back. */
    result<std::uint64_t> trim(std::uint64_t keep = 0) const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        std::uint64_t released = 0;
        weir_status status = weir_pool_trim(pool_, keep, &error, &released);
        if (status != WEIR_OK)
            return failure(status, error);
        return released;
    }

    /* weir_pool_sleep(): bytes that went back. */
    result<std::uint64_t> sleep(unsigned flags, unsigned timeout_ms) const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        std::uint64_t given = 0;
        weir_status status = weir_pool_sleep(pool_, flags, timeout_ms, &error, &given);
        if (status != WEIR_OK)
            return failure(status, error);
        return given;
    }

    /* weir_pool_yield(). */
    result<void> yield(unsigned flags = 0) const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        weir_status status = weir_pool_yield(pool_, flags, &error);
        if (status != WEIR_OK)
            return failure(status, error);
        return {};
    }

    /* weir_pool_wake(): whether the contents are as before. */
    result<bool> wake(unsigned timeout_ms = 0) const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        int kept = 0;
        weir_status status = weir_pool_wake(pool_, timeout_ms, &error, &kept);
        if (status != WEIR_OK)
            return failure(status, error);
        return kept != 0;
    }

    /* weir_pool_set_release_threshold(). */
    result<void> set_release_threshold(std::uint64_t bytes) const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        weir_status status = weir_pool_set_release_threshold(pool_, bytes, &error);
        if (status != WEIR_OK)
            return failure(status, error);
        return {};
    }

    /* weir_export_open(): lets other processes use the published blocks of the pool. */
    result<exporter> open_export() const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        weir_export *opened = nullptr;
        weir_status status = weir_export_open(pool_, &error, &opened);
        if (status != WEIR_OK)
            return failure(status, error);
        return exporter(opened);
    }

    const char *name() const noexcept
    {
        return weir_pool_name(pool_);
    }
    int device() const noexcept
    {
        return weir_pool_device(pool_);
    }
    weir_cuda_pool handle() const noexcept
    {
        return weir_pool_handle(pool_);
    }
    weir_pool *get() const noexcept
    {
        return pool_;
    }

  private:
    ::weir *w_;
    weir_pool *pool_;
};

/* Streams ------------------------------------------------------------------------------------------------------------------------------ */

/* An opened stream, with its cache. Closed by the destructor; one that weir::open_stream() was told of has to be alive until then. */
class stream
{
  public:
    stream() noexcept = default;

    /* Takes a stream of weir_stream_open() or weir_stream_create() over. */
    stream(::weir *w, weir_stream *s) noexcept : w_(w), s_(s)
    {
    }
    stream(stream &&other) noexcept : w_(other.w_), s_(other.release())
    {
    }
    stream &operator=(stream &&other) noexcept
    {
        stream former(std::move(other));
        std::swap(w_, former.w_);
        std::swap(s_, former.s_);
        return *this;
    }
    ~stream()
    {
        close();
    }

    /* weir_stream_malloc(). */
    result<block> allocate(std::size_t size) const noexcept
    {
        void *ptr;
        weir_status status = weir_stream_malloc(s_, &ptr, size);
        if (status != WEIR_OK)
            return failure::last(status);
        return block(w_, ptr, size, s_);
    }

    /* weir_stream_synchronize(): waits for all work of the stream. */
    result<void> synchronize() const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        weir_status status = weir_stream_synchronize(s_, &error);
        if (status != WEIR_OK)
            return failure(status, error);
        return {};
    }

    weir_cuda_stream handle() const noexcept
    {
        return weir_stream_handle(s_);
    }
    int device() const noexcept
    {
        return weir_stream_device(s_);
    }
    weirpp::pool pool() const noexcept
    {
        return weirpp::pool(w_, weir_stream_pool(s_));
    }
    weir_stream *get() const noexcept
    {
        return s_;
    }

    /* Closes it now. With WEIR_BUSY, in a callback, it stays open and owned. */
    weir_status close() noexcept
    {
        weir_status status = weir_stream_close(s_);
        if (status != WEIR_BUSY)
            s_ = nullptr;
        return status;
    }

    /* The stream, which is the caller's to close from now on. */
    weir_stream *release() noexcept
    {
        return std::exchange(s_, nullptr);
    }

  private:
    ::weir *w_ = nullptr;
    weir_stream *s_ = nullptr;
};

/* The program's own code --------------------------------------------------------------------------------------------------------------- */

/* Calls a function of the program, and returns `otherwise` where it throws. A thread that ends in it (pthread_exit) goes on doing so. */
template <class Result, class Function> Result caught(Function function, Result otherwise)
{
#if defined(__cpp_exceptions)
    try {
        return function();
#if defined(__GLIBCXX__)
    } catch (abi::__forced_unwind &) {
        throw;
#endif
    } catch (...) {
        return otherwise;
    }
#else
    (void)otherwise;
    return function();
#endif
}

/*
 * An out-of-memory callback, from weir::add_oom_callback() until its destructor or remove(). Its function gets the device and the bytes that
 * are needed, and returns how many it freed; one that throws has freed nothing. See weir_oom_fn for what it may do.
 */
class oom_callback
{
  public:
    using function = std::function<std::uint64_t(int device, std::uint64_t needed)>;

    oom_callback() noexcept = default;
    oom_callback(oom_callback &&other) noexcept : w_(other.w_), id_(other.id_), function_(std::move(other.function_))
    {
    }
    oom_callback &operator=(oom_callback &&other) noexcept
    {
        oom_callback former(std::move(other));
        std::swap(w_, former.w_);
        std::swap(id_, former.id_);
        std::swap(function_, former.function_);
        return *this;
    }
    /* Waits for calls of it. In a callback, where nothing waits, one that runs stays, with its function, until the weir is closed. */
    ~oom_callback()
    {
        if (function_ && remove().status() == WEIR_BUSY)
            (void)function_.release();
    }

    /* weir_oom_remove(). */
    result<void> remove() noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        weir_status status = function_ ? weir_oom_remove(w_, id_, &error) : WEIR_OK;
        if (status != WEIR_BUSY)
            function_.reset();
        if (status != WEIR_OK)
            return failure(status, error);
        return {};
    }

  private:
    friend class weir;

    static std::uint64_t call(void *data, int device, std::uint64_t needed)
    {
        return caught([&] { return (*static_cast<function *>(data))(device, needed); }, std::uint64_t(0));
    }

    ::weir *w_ = nullptr;
    unsigned id_ = 0;
    std::unique_ptr<function> function_; /* NULL: it owns nothing */
};

/* A log function. Outlives the weirs that are opened with its options. What it throws is dropped with the line. */
class logger
{
  public:
    using function = std::function<void(weir_log_level level, const char *line)>;

    explicit logger(function say) : function_(std::move(say))
    {
    }
    logger(const logger &) = delete;
    logger &operator=(const logger &) = delete;

    /* These options, with this log function. */
    weir_options options(weir_options options = WEIR_OPTIONS_INIT) noexcept
    {
        options.log = call;
        options.log_data = this;
        return options;
    }

  private:
    static void call(void *data, weir_log_level level, const char *line)
    {
        (void)caught(
            [&] {
                static_cast<logger *>(data)->function_(level, line);
                return true;
            },
            false);
    }

    function function_;
};

/* A tag of the calling thread, from weir::tag() until its destructor, which has to run on that thread. Tags end in reverse order. */
class tag
{
  public:
    tag() noexcept = default;
    tag(tag &&other) noexcept : w_(std::exchange(other.w_, nullptr))
    {
    }
    tag &operator=(tag &&other) noexcept
    {
        tag former(std::move(other));
        std::swap(w_, former.w_);
        return *this;
    }
    ~tag()
    {
        if (w_)
            (void)weir_tag_pop(w_, nullptr);
    }

  private:
    friend class weir;
    explicit tag(::weir *w) noexcept : w_(w)
    {
    }

    ::weir *w_ = nullptr; /* NULL: it owns nothing */
};

/* Weirs -------------------------------------------------------------------------------------------------------------------------------- */

/* Everything opened from one policy. Closed by the destructor: it ends before main() returns, and is no object with static storage (see
   weir_close()). */
class weir
{
  public:
    /* weir_open(), with all defaults or these options. */
    static result<weir> open() noexcept
    {
        return open(nullptr);
    }
    static result<weir> open(const weir_options &options) noexcept
    {
        return open(&options);
    }

    weir() noexcept = default;

    /* Takes a weir of weir_open() over. */
    explicit weir(::weir *w) noexcept : w_(w)
    {
    }
    weir(weir &&other) noexcept : w_(other.release())
    {
    }
    weir &operator=(weir &&other) noexcept
    {
        weir former(std::move(other));
        std::swap(w_, former.w_);
        return *this;
    }
    ~weir()
    {
        close();
    }

    /* weir_stream_create(): a stream of Weir's own. name: an entry of the policy's `streams`. */
    result<stream> create_stream(int device, const char *name = nullptr) const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        weir_stream *s = nullptr;
        weir_status status = weir_stream_create(w_, device, name, &error, &s);
        if (status != WEIR_OK)
            return failure(status, error);
        return stream(w_, s);
    }

    /* weir_stream_open(): a stream of the program's, 0 for the default stream. */
    result<stream> open_stream(int device, weir_cuda_stream handle, const char *name = nullptr) const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        weir_stream *s = nullptr;
        weir_status status = weir_stream_open(w_, device, handle, name, &error, &s);
        if (status != WEIR_OK)
            return failure(status, error);
        return stream(w_, s);
    }

    /* weir_pool_get(). name: NULL is defaults.pool. */
    result<weirpp::pool> pool(const char *name, int device) const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        weir_pool *found = nullptr;
        weir_status status = weir_pool_get(w_, name, device, &error, &found);
        if (status != WEIR_OK)
            return failure(status, error);
        return weirpp::pool(w_, found);
    }

    /* weir_malloc(), for streams that are not opened. */
    result<block> allocate(std::size_t size, int device, weir_cuda_stream handle) const noexcept
    {
        void *ptr;
        weir_status status = weir_malloc(w_, &ptr, size, device, handle);
        if (status != WEIR_OK)
            return failure::last(status);
        return block(w_, ptr, size, handle);
    }

    /* weir_import_open(). options: NULL is all defaults. */
    result<importer> open_import(const char *socket, const weir_import_options *options = nullptr) const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        weir_import *opened = nullptr;
        weir_status status = weir_import_open(w_, socket, options, &error, &opened);
        if (status != WEIR_OK)
            return failure(status, error);
        return importer(opened);
    }

    /* weir_stats_json() of a snapshot: one line of JSON. */
    result<std::unique_ptr<char[]>> stats_json() const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        weir_stats *stats = nullptr;
        weir_status status = weir_stats_take(w_, &error, &stats);
        if (status != WEIR_OK)
            return failure(status, error);
        std::size_t size = weir_stats_json(stats, nullptr, 0) + 1;
        std::unique_ptr<char[]> json(new (std::nothrow) char[size]);
        if (json)
            weir_stats_json(stats, json.get(), size);
        weir_stats_free(stats);
        if (!json)
            return failure(WEIR_NO_HOST_MEMORY, error);
        return json;
    }

    /* weir_oom_add(). */
    result<oom_callback> add_oom_callback(oom_callback::function function) const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        oom_callback callback;
        callback.function_.reset(new (std::nothrow) oom_callback::function(std::move(function)));
        if (!callback.function_)
            return failure(WEIR_NO_HOST_MEMORY, error);
        weir_status status = weir_oom_add(w_, oom_callback::call, callback.function_.get(), &error, &callback.id_);
        callback.w_ = w_;
        if (status == WEIR_OK)
            return callback;
        callback.function_.reset();
        return failure(status, error);
    }

    /* weir_mark(). */
    result<void> mark(const char *name) const noexcept
    {
        weir_status status = weir_mark(w_, name);
        if (status != WEIR_OK)
            return failure::last(status);
        return {};
    }

    /* weir_tag_push(): blocks that this thread allocates while the result lives have the tag. */
    result<weirpp::tag> tag(const char *name) const noexcept
    {
        weir_status status = weir_tag_push(w_, name);
        if (status != WEIR_OK)
            return failure::last(status);
        return weirpp::tag(w_);
    }

    /* weir_leaks(): calls function(const weir_leak &) for all that is live. What it throws ends the list, and reaches the caller. */
    template <class Function> result<void> leaks(Function &&function, int device = -1) const
    {
        using called = std::remove_reference_t<Function>;
        weir_error error = WEIR_ERROR_INIT;
        weir_leak_fn call = [](void *data, const weir_leak *leak) { (*static_cast<called *>(data))(*leak); };
        weir_status status = weir_leaks(w_, device, call, const_cast<void *>(static_cast<const void *>(std::addressof(function))), &error);
        if (status != WEIR_OK)
            return failure(status, error);
        return {};
    }

    /* weir_reload(). */
    result<void> reload(const char *policy_file = nullptr) const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        weir_status status = weir_reload(w_, policy_file, &error);
        if (status != WEIR_OK)
            return failure(status, error);
        return {};
    }

    ::weir *get() const noexcept
    {
        return w_;
    }

    /* Closes it now. With WEIR_BUSY, in a callback, it stays open and owned. */
    weir_status close() noexcept
    {
        weir_status status = weir_close(w_);
        if (status != WEIR_BUSY)
            w_ = nullptr;
        return status;
    }

    /* The weir, which is the caller's to close from now on. */
    ::weir *release() noexcept
    {
        return std::exchange(w_, nullptr);
    }

  private:
    static result<weir> open(const weir_options *options) noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        ::weir *w = nullptr;
        weir_status status = weir_open(options, &error, &w);
        if (status != WEIR_OK)
            return failure(status, error);
        return weir(w);
    }

    ::weir *w_ = nullptr;
};

/* Memory resources --------------------------------------------------------------------------------------------------------------------- */

/*
 * A weir, or one pool of it, on one device, by the names that CCCL gives to the calls of a memory resource. Copies share one state, are
 * equal, and may be used by any threads; so are two resources of the same weir, pool and device.
 *
 * OutOfMemory: the class of exception for a lack of memory, which is made from a std::string. RMM's own is rmm::out_of_memory, which its
 * adaptors catch. Every other failure is a weirpp::exception.
 *
 * This class takes streams as CUDA's handles and needs none of CUDA's headers; memory_resource, below, is for CCCL and RMM.
 */
template <class OutOfMemory = out_of_memory> class basic_resource
{
  public:
    static constexpr std::size_t max_alignment = 512; /* of every block; of blocks of a pool with `align`, what that says. More is refused,
                                                         with WEIR_INVALID */

    /* Of that weir, which outlives all copies and their blocks: the policy says which pool serves a stream. */
    basic_resource(const weir &w, int device) : state_(std::make_shared<state>(w.get(), nullptr, device, nullptr))
    {
    }

    /* Of that pool, whatever the policy says of the stream. */
    basic_resource(const weir &w, const pool &from)
        : state_(std::make_shared<state>(w.get(), from.get(), from.device(), nullptr))
    {
    }

    /* The same, but the copies keep the weir open. Where the last of them ends, as in an object with static storage, the weir is closed:
       see weir_close(). */
    basic_resource(std::shared_ptr<const weir> w, int device)
        : state_(std::make_shared<state>(w->get(), nullptr, device, w))
    {
    }
    basic_resource(std::shared_ptr<const weir> w, const pool &from)
        : state_(std::make_shared<state>(w->get(), from.get(), from.device(), w))
    {
    }

    /* Memory for work on the stream, behind this call; bytes 0 gives NULL. Only an opened stream has a cache (weir::open_stream()). */
    void *allocate(weir_cuda_stream stream, std::size_t bytes, std::size_t alignment = max_alignment)
    {
        result<void *> given = try_allocate(stream, bytes, alignment);
        return given ? *given : raise(given);
    }

    /* The same without exceptions. */
    result<void *> try_allocate(weir_cuda_stream stream, std::size_t bytes, std::size_t alignment = max_alignment) noexcept
    {
        void *ptr = nullptr;
        if (!is_power_of_two(alignment) || (alignment > max_alignment && alignment > state_->alignment()))
            return refused(alignment);
        weir_status status = state_->from ? weir_pool_malloc(state_->from, &ptr, bytes, stream)
                                          : weir_malloc(state_->w, &ptr, bytes, state_->device, stream);
        if (status != WEIR_OK)
            return failure::last(status);
        return ptr;
    }

    /* Behind this point of the stream the memory serves others. A caller learns nothing of a failure, of which weir_last_error() has the
       record: the block stays live, and weir_close() logs it. */
    void deallocate(weir_cuda_stream stream, void *ptr, std::size_t, std::size_t = max_alignment) noexcept
    {
        (void)weir_free(state_->w, ptr, stream);
    }

    /* Memory for any stream, at once. It comes on a stream of the resource's own, which the calling thread waits for. */
    void *allocate_sync(std::size_t bytes, std::size_t alignment = max_alignment)
    {
        result<void *> given = try_allocate_sync(bytes, alignment);
        return given ? *given : raise(given);
    }
    result<void *> try_allocate_sync(std::size_t bytes, std::size_t alignment = max_alignment) noexcept
    {
        result<weir_cuda_stream> own = state_->stream();
        if (!own)
            return failure(own.status(), own.error());
        result<void *> given = try_allocate(*own, bytes, alignment);
        weir_error error = WEIR_ERROR_INIT;
        weir_status status = given ? weir_stream_synchronize(state_->own, &error) : WEIR_OK;
        if (status == WEIR_OK)
            return given;
        (void)weir_free(state_->w, *given, *own);
        return failure(status, error);
    }

    /* All work on the memory is complete. */
    void deallocate_sync(void *ptr, std::size_t, std::size_t = max_alignment) noexcept
    {
        result<weir_cuda_stream> own = state_->stream();
        (void)weir_free(state_->w, ptr, own ? *own : nullptr);
    }

    int device() const noexcept
    {
        return state_->device;
    }

    friend bool operator==(const basic_resource &one, const basic_resource &other) noexcept
    {
        return one.state_->w == other.state_->w && one.state_->from == other.state_->from && one.state_->device == other.state_->device;
    }
    friend bool operator!=(const basic_resource &one, const basic_resource &other) noexcept
    {
        return !(one == other);
    }

  private:
    struct state {
        state(::weir *borrowed, weir_pool *pool_or_null, int number, std::shared_ptr<const weirpp::weir> keeps) noexcept
            : owner(std::move(keeps)), w(borrowed), from(pool_or_null), device(number)
        {
        }
        state(const state &) = delete;
        ~state()
        {
            weir_stream_close(own);
        }

        /* The stream for calls that name none, made by the first of them. */
        result<weir_cuda_stream> stream() noexcept
        {
            std::lock_guard<std::mutex> guard(lock);
            weir_error error = WEIR_ERROR_INIT;
            weir_status status = own ? WEIR_OK : weir_stream_create(w, device, nullptr, &error, &own);
            if (status != WEIR_OK)
                return failure(status, error);
            return weir_stream_handle(own);
        }

        /* The alignment that all blocks have, whichever pool serves a stream: no reload changes it. */
        std::size_t alignment() noexcept
        {
            std::lock_guard<std::mutex> guard(lock);
            weir_stats *stats = nullptr;
            if (aligned || weir_stats_take(w, nullptr, &stats) != WEIR_OK)
                return aligned ? aligned : max_alignment;
            aligned = std::size_t(-1);
            for (std::size_t i = 0; const weir_pool_stats *pool = weir_stats_pool(stats, i); i++)
                if (pool->device == device && (!from || !std::strcmp(pool->name, weir_pool_name(from))) && pool->align < aligned)
                    aligned = std::size_t(pool->align);
            weir_stats_free(stats);
            return aligned;
        }

        std::shared_ptr<const weirpp::weir> owner; /* NULL: the weir is borrowed */
        ::weir *w;
        weir_pool *from; /* NULL: as the policy says */
        int device;
        std::mutex lock; /* guards `own` and `aligned` until they are set */
        weir_stream *own = nullptr;
        std::size_t aligned = 0;
    };

    static bool is_power_of_two(std::size_t alignment) noexcept
    {
        return alignment && !(alignment & (alignment - 1));
    }

    failure refused(std::size_t alignment) const noexcept
    {
        weir_error error = WEIR_ERROR_INIT;
        if (is_power_of_two(alignment))
            std::snprintf(error.text, sizeof error.text,
                          "alignment %zu: blocks begin at multiples of %zu bytes; ask for no more, or write `align: %zu` (2MiB at most) for the "
                          "pools of device %d in the policy",
                          alignment, state_->alignment(), alignment, state_->device);
        else
            std::snprintf(error.text, sizeof error.text, "alignment %zu is no power of two", alignment);
        return failure(WEIR_INVALID, error);
    }

    [[noreturn]] static void *raise(const result<void *> &given)
    {
        weir_status status = given.status();
#if defined(__cpp_exceptions)
        if (status == WEIR_OUT_OF_MEMORY || status == WEIR_NO_HOST_MEMORY)
            throw OutOfMemory(std::string(given.text()));
#endif
        failure(status, given.error()).raise();
    }

    std::shared_ptr<state> state_;
};

using resource = basic_resource<>;

/*
 * A pool that the policy has as `location: host` as a std::pmr::memory_resource: pinned memory for containers of the standard library, to be
 * copied to a GPU. The host must not touch the memory of any other pool. deallocate() must come behind the end of all copies.
 *
 *     weirpp::host_resource pinned(w, w.pool("staging", 0).value());
 *     std::pmr::vector<float> batch(&pinned);
 */
template <class OutOfMemory = out_of_memory> class basic_host_resource : public std::pmr::memory_resource
{
  public:
    /* As of basic_resource: the weir is borrowed, or kept open. */
    basic_host_resource(const weir &w, const pool &from) : from_(w, from)
    {
    }
    basic_host_resource(std::shared_ptr<const weir> w, const pool &from) : from_(std::move(w), from)
    {
    }

  private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override
    {
        return from_.allocate_sync(bytes ? bytes : 1, alignment); /* not even for 0 bytes may it be NULL */
    }
    void do_deallocate(void *ptr, std::size_t bytes, std::size_t alignment) override
    {
        from_.deallocate_sync(ptr, bytes, alignment);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        const auto *same = dynamic_cast<const basic_host_resource *>(&other);
        return same && same->from_ == from_;
    }

    basic_resource<OutOfMemory> from_;
};

using host_resource = basic_host_resource<>;

}
} // namespace weirpp

/*
 * weirpp::memory_resource is there, and WEIR_HAS_CUDA_MR is defined, where the compiler finds CCCL 3.2 or later, as RMM 26.x brings it, and
 * CUDA's headers. A program that has them and does not want them included defines WEIR_NO_CUDA_MR.
 */
#if !defined(WEIR_NO_CUDA_MR) && __has_include(<cuda/memory_resource>) && __has_include(<cuda_runtime_api.h>)
#include <cuda/version>
#if CCCL_VERSION >= 3002000
#define WEIR_HAS_CUDA_MR 1
#include <cuda/memory_resource>
#include <cuda/stream>

namespace weirpp
{
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
inline namespace per_thread
{
#else
inline namespace legacy
{
#endif

/*
 * basic_resource as a cuda::mr::resource whose memory is accessible to devices.
 *
 *     weirpp::memory_resource<rmm::out_of_memory> resource(w, 0);
 *     rmm::mr::set_current_device_resource(resource);
 *     …
 *     rmm::mr::reset_current_device_resource();       before w is closed: RMM keeps a copy
 *
 * Earlier RMM 26.x names these set_current_device_resource_ref() and reset_current_device_resource_ref(), and keeps a reference.
 */
template <class OutOfMemory = out_of_memory> class memory_resource : private basic_resource<OutOfMemory>
{
    using base = basic_resource<OutOfMemory>;

  public:
    using base::base;
    using base::max_alignment;
    using base::allocate_sync;
    using base::deallocate_sync;
    using base::device;

    /* What CCCL's owning wrapper of resources, any_resource, asks for where it is given none. */
    using default_queries = ::cuda::mr::properties_list<::cuda::mr::device_accessible>;

    void *allocate(::cuda::stream_ref stream, std::size_t bytes, std::size_t alignment = max_alignment)
    {
        return base::allocate(stream.get(), bytes, alignment);
    }
    void deallocate(::cuda::stream_ref stream, void *ptr, std::size_t bytes, std::size_t alignment = max_alignment) noexcept
    {
        base::deallocate(stream.get(), ptr, bytes, alignment);
    }

    friend bool operator==(const memory_resource &one, const memory_resource &other) noexcept
    {
        return static_cast<const base &>(one) == static_cast<const base &>(other);
    }
    friend bool operator!=(const memory_resource &one, const memory_resource &other) noexcept
    {
        return !(one == other);
    }
    friend void get_property(const memory_resource &, ::cuda::mr::device_accessible) noexcept
    {
    }
};

static_assert(::cuda::mr::resource_with<memory_resource<>, ::cuda::mr::device_accessible>,
              "weirpp::memory_resource is no cuda::mr::resource of this CCCL: define WEIR_NO_CUDA_MR to go on without it");

}
} // namespace weirpp
#endif
#endif

#endif
