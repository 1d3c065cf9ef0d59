/* SPDX-License-Identifier: MIT */
/*
 * cuda_features.c - one table of the features that CUDA versions have added, and the code that differs by toolkit. Only this file compares
 * toolkit versions feature by feature.
 *
 * A feature needs a toolkit that can express it, a driver that implements it, and a device that has it. They are checked in this order, and
 * the message names the first that lacks the feature. The versions are those of the first headers, from 11.2 to 13.0, that have the names.
 */
#include "lib/gpu/cuda_internal.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* -DWEIR_CUDA_ASSUME=11020 checks that the code for old toolkits compiles with newer headers. */
#if defined(WEIR_CUDA_ASSUME)
#define TOOLKIT WEIR_CUDA_ASSUME
#else
#define TOOLKIT CUDART_VERSION
#endif

#if TOOLKIT < 11020
#error "Weir needs a CUDA toolkit of 11.2 or later: memory pools are not in older ones"
#endif

/* Names that only newer headers have. With older headers the number 0 stands for them and is never used, since the toolkit is checked
   first. */
#if TOOLKIT >= 11030
#define ATTRIBUTE_HANDLE_TYPES cudaDevAttrMemoryPoolSupportedHandleTypes
#else
#define ATTRIBUTE_HANDLE_TYPES ((enum cudaDeviceAttr)0)
#endif
#if TOOLKIT >= 12090
#define ATTRIBUTE_HOST_NUMA cudaDevAttrHostNumaMemoryPoolsSupported
#else
#define ATTRIBUTE_HOST_NUMA ((enum cudaDeviceAttr)0)
#endif
#if TOOLKIT >= 13000
#define ATTRIBUTE_HOST cudaDevAttrHostMemoryPoolsSupported
#else
#define ATTRIBUTE_HOST ((enum cudaDeviceAttr)0)
#endif

#define HANDLE_POSIX_FD 0x1u /* cudaMemHandleTypePosixFileDescriptor */
#define HANDLE_FABRIC 0x8u   /* cudaMemHandleTypeFabric, since 12.4 */

struct feature {
    int toolkit, driver;           /* the first versions with the feature */
    bool on_pools;                 /* it also needs GPU_FEATURE_POOLS */
    enum cudaDeviceAttr attribute; /* the device attribute to check, if toolkit and driver are at least attribute_since */
    int attribute_since;           /* 0: no attribute; every device has the feature (if on_pools: every one with pools) */
    unsigned mask;                 /* bits that must be set in the attribute; 0: any bit */
    const char *lacks;             /* the message for a device without the feature */
};

static const struct feature features[GPU_FEATURE_COUNT] = {
    [GPU_FEATURE_POOLS] = { 11020, 11020, false, cudaDevAttrMemoryPoolsSupported, 11020, 0, "the device does not support memory pools" },
    [GPU_FEATURE_POOL_USAGE] = { 11030, 11030, true, (enum cudaDeviceAttr)0, 0, 0, NULL },
    /* 12.2 has the name of this location too, but up to 12.9 CUDA's documentation says that no pool can be created there. */
    [GPU_FEATURE_POOL_HOST] = { 13000, 13000, true, ATTRIBUTE_HOST, 13000, 0, "the device does not support pools on host memory" },
    [GPU_FEATURE_POOL_HOST_NUMA] = { 12020, 12020, true, ATTRIBUTE_HOST_NUMA, 12090, 0,
                                     "the device does not support pools on host NUMA nodes" },
    [GPU_FEATURE_POOL_MAX_SIZE] = { 12020, 12020, true, (enum cudaDeviceAttr)0, 0, 0, NULL },
    [GPU_FEATURE_POOL_POSIX_FD] = { 11030, 11030, true, ATTRIBUTE_HANDLE_TYPES, 11030, HANDLE_POSIX_FD,
                                    "the device does not support pools exportable as a file descriptor" },
    [GPU_FEATURE_POOL_FABRIC] = { 12040, 12040, true, ATTRIBUTE_HANDLE_TYPES, 11030, HANDLE_FABRIC,
                                  "the device does not support pools exportable as a fabric handle" },
    [GPU_FEATURE_STREAM_ID] = { 12000, 12000, false, (enum cudaDeviceAttr)0, 0, 0, NULL },
    /* The driver's function is looked up by name, so every toolkit will do. */
    [GPU_FEATURE_DEVICE_EVENT] = { 11020, 12050, false, (enum cudaDeviceAttr)0, 0, 0, NULL },
    [GPU_FEATURE_MAPPING] = { 11020, 11020, false, (enum cudaDeviceAttr)0, 0, 0, NULL },
};

/* What differs by toolkit -------------------------------------------------------------------------------------------------------------- */

int cuda_stream_id(gpu_stream stream, uint64_t *id)
{
#if TOOLKIT >= 12000
    const struct cuda_driver *driver = cuda_driver();
    unsigned long long value;
    int code = driver && driver->stream_id ? driver->stream_id(stream, &value) : cudaErrorDeviceUninitialized;
    if (cuda_lacks_context(code))
        code = cuda_done(cudaStreamGetId(stream, &value));
    if (!code)
        *id = value;
    return code;
#else
    (void)stream;
    (void)id;
    return GPU_NOT_SUPPORTED;
#endif
}

/* Newer toolkits have the same function with more outputs after the id. CUDART_VERSION decides here, not TOOLKIT, because the call must
   match the headers in use even if an older toolkit is assumed. */
int cuda_stream_capture_id(gpu_stream stream, uint64_t *id)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long number = 0;
#if CUDART_VERSION >= 13000
    int code = (int)cudaStreamGetCaptureInfo(stream, &status, &number, NULL, NULL, NULL, NULL);
#elif CUDART_VERSION >= 12000
    int code = (int)cudaStreamGetCaptureInfo_v2(stream, &status, &number, NULL, NULL, NULL);
#else
    int code = (int)cudaStreamGetCaptureInfo(stream, &status, &number);
#endif
    if (!code)
        *id = status == cudaStreamCaptureStatusNone ? 0 : number;
    return cuda_done(code);
}

#if TOOLKIT >= 11040
static cudaError_t run_graph(cudaGraph_t graph, gpu_stream stream)
{
    cudaGraphExec_t instance;
    cudaError_t code = cudaGraphInstantiateWithFlags(&instance, graph, 0);
    if (code != cudaSuccess)
        return code;
    code = cudaGraphLaunch(instance, stream);
    if (code == cudaSuccess)
        code = cudaStreamSynchronize(stream);
    cudaError_t destroyed = cudaGraphExecDestroy(instance);
    return code != cudaSuccess ? code : destroyed;
}

int cuda_capture_run(gpu_stream stream)
{
    cudaGraph_t graph = NULL;
    cudaError_t code = cudaStreamEndCapture(stream, &graph);
    if (code != cudaSuccess)
        return cuda_done(code);
    code = run_graph(graph, stream);
    cudaError_t destroyed = cudaGraphDestroy(graph);
    return cuda_done(code != cudaSuccess ? code : destroyed);
}

int cuda_graph_trim(int device)
{
    return cuda_done(cudaDeviceGraphMemTrim(device));
}
#else
int cuda_capture_run(gpu_stream stream)
{
    (void)stream;
    return GPU_NOT_SUPPORTED;
}

int cuda_graph_trim(int device)
{
    (void)device;
    return GPU_NOT_SUPPORTED;
}
#endif

bool cuda_pool_attribute(enum gpu_pool_attribute attribute, enum cudaMemPoolAttr *name, bool *is_int)
{
    static const struct {
        enum cudaMemPoolAttr name; /* 0: this toolkit lacks the attribute */
        bool is_int;
    } attributes[] = {
        [GPU_POOL_RELEASE_THRESHOLD] = { cudaMemPoolAttrReleaseThreshold, false },
        [GPU_POOL_REUSE_EVENT_DEPENDENCIES] = { cudaMemPoolReuseFollowEventDependencies, true },
        [GPU_POOL_REUSE_OPPORTUNISTIC] = { cudaMemPoolReuseAllowOpportunistic, true },
        [GPU_POOL_REUSE_INTERNAL_DEPENDENCIES] = { cudaMemPoolReuseAllowInternalDependencies, true },
#if TOOLKIT >= 11030
        [GPU_POOL_RESERVED] = { cudaMemPoolAttrReservedMemCurrent, false },
        [GPU_POOL_RESERVED_HIGH] = { cudaMemPoolAttrReservedMemHigh, false },
        [GPU_POOL_USED] = { cudaMemPoolAttrUsedMemCurrent, false },
        [GPU_POOL_USED_HIGH] = { cudaMemPoolAttrUsedMemHigh, false },
#endif
    };
    if ((size_t)attribute >= sizeof(attributes) / sizeof(attributes[0]) || attributes[attribute].name == 0)
        return false;
    *name = attributes[attribute].name;
    *is_int = attributes[attribute].is_int;
    return true;
}

int cuda_pool_props(const struct gpu_pool_spec *spec, struct cudaMemPoolProps *props)
{
    /* CUDA wants zeros in all reserved members; to an older driver, zeros mean that no newer feature is asked for. */
    memset(props, 0, sizeof(*props));
    props->allocType = cudaMemAllocationTypePinned;
    props->handleTypes = spec->posix_fd ? cudaMemHandleTypePosixFileDescriptor : cudaMemHandleTypeNone;
    switch (spec->location) {
    case GPU_LOCATION_DEVICE:
        props->location.type = cudaMemLocationTypeDevice;
        props->location.id = spec->device;
        break;
#if TOOLKIT >= 13000
    case GPU_LOCATION_HOST:
        props->location.type = cudaMemLocationTypeHost;
        break;
#endif
#if TOOLKIT >= 12020
    case GPU_LOCATION_HOST_NUMA:
        props->location.type = cudaMemLocationTypeHostNuma;
        props->location.id = spec->numa_node;
        break;
#endif
    default:
        return GPU_NOT_SUPPORTED;
    }
#if TOOLKIT >= 12020
    props->maxSize = (size_t)spec->max_size;
#else
    if (spec->max_size)
        return GPU_NOT_SUPPORTED;
#endif
    return GPU_SUCCESS;
}

/* What a machine supports -------------------------------------------------------------------------------------------------------------- */

int cuda_versions(int *driver, int *runtime)
{
    int version;
    cudaError_t code = cudaDriverGetVersion(&version);
    if (code != cudaSuccess)
        return cuda_done(code);
    *driver = version;
    *runtime = TOOLKIT;
    return GPU_SUCCESS;
}

#define MAJOR(version) ((version) / 1000)
#define MINOR(version) ((version) % 1000 / 10)

bool cuda_refuse(char *why, size_t len, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, len, format, arguments);
    va_end(arguments);
    return false;
}

/* Returns true if the device exists; else writes the reason and returns false. */
static bool has_device(int device, char *why, size_t len)
{
    int count = 0;
    cudaError_t code = cuda_done(cudaGetDeviceCount(&count));
    if (code != cudaSuccess)
        return cuda_refuse(why, len, "cudaGetDeviceCount says: %s", cudaGetErrorString(code));
    if (device < 0 || device >= count)
        return cuda_refuse(why, len, "there is no device %d; this process sees %d", device, count);
    return true;
}

/* Returns whether the toolkit and the driver have the feature; if not, writes the reason. */
static bool has_versions(const struct feature *feature, int driver, char *why, size_t len)
{
    if (TOOLKIT < feature->toolkit)
        return cuda_refuse(why, len, "Weir was built with CUDA %d.%d; build it with %d.%d or later", MAJOR(TOOLKIT), MINOR(TOOLKIT),
                           MAJOR(feature->toolkit), MINOR(feature->toolkit));
    if (driver < feature->driver)
        return cuda_refuse(why, len, "needs driver %d.%d; this is %d.%d", MAJOR(feature->driver), MINOR(feature->driver), MAJOR(driver),
                           MINOR(driver));
    return true;
}

static bool has_attribute(const struct feature *feature, int driver, int device, char *why, size_t len)
{
    /* If the attribute does not exist yet in this toolkit or driver, assume the feature: creating such a pool will then fail if the device
       lacks it. */
    if (!feature->attribute_since || TOOLKIT < feature->attribute_since || driver < feature->attribute_since)
        return true;
    int value = 0;
    cudaError_t code = cuda_done(cudaDeviceGetAttribute(&value, feature->attribute, device));
    if (code != cudaSuccess)
        return cuda_refuse(why, len, "cudaDeviceGetAttribute says: %s", cudaGetErrorString(code));
    bool has = feature->mask ? ((unsigned)value & feature->mask) == feature->mask : value != 0;
    return has || cuda_refuse(why, len, "%s", feature->lacks);
}

/* A virtual GPU is named after its profile: "GRID T4-4Q", "NVIDIA A40-48C". No physical GPU has a name that ends in a dash, digits and one
   of these letters. */
static bool is_virtual_name(const char *name)
{
    size_t end = strlen(name);
    if (end < 3 || !strchr("ABCQ", name[end - 1]))
        return false;
    size_t digit = end - 1;
    while (digit > 0 && isdigit((unsigned char)name[digit - 1]))
        digit--;
    return digit > 0 && digit < end - 1 && name[digit - 1] == '-';
}

/* Returns false, with the reason, on machines where the attribute promises export by file descriptor but processes cannot share pools. */
static bool may_share(int device, char *why, size_t len)
{
    if (access("/dev/dxg", F_OK) == 0)
        return cuda_refuse(why, len, "not under WSL2: its driver does not share pools between processes");
    struct gpu_device_info info;
    int code = cuda_device_info(device, &info);
    if (code)
        return cuda_refuse(why, len, "cudaGetDeviceProperties says: %s", cudaGetErrorString((cudaError_t)code));
    if (info.mig)
        return cuda_refuse(why, len, "not on a MIG device: CUDA shares no pools between processes there");
    if (is_virtual_name(info.name))
        return cuda_refuse(why, len, "not on a virtual GPU (%s): CUDA shares no pools between processes there", info.name);
    return true;
}

/* Returns false, with the reason, on a virtual GPU: its attribute may promise mapping, but the host of the GPU decides over its memory. */
static bool may_map(int device, char *why, size_t len)
{
    struct gpu_device_info info;
    int code = cuda_device_info(device, &info);
    if (code)
        return cuda_refuse(why, len, "cudaGetDeviceProperties says: %s", cudaGetErrorString((cudaError_t)code));
    return !is_virtual_name(info.name) || cuda_refuse(why, len, "not on a virtual GPU (%s)", info.name);
}

bool cuda_supports(int device, enum gpu_feature feature, char *why, size_t len)
{
    char unused[1];
    if (!why || !len) {
        why = unused;
        len = sizeof(unused);
    }
    why[0] = '\0';
    if ((unsigned)feature >= GPU_FEATURE_COUNT)
        return cuda_refuse(why, len, "there is no feature %d", (int)feature);
    const struct feature *wanted = &features[feature];
    int driver = 0;
    cudaError_t code = cuda_done(cudaDriverGetVersion(&driver));
    if (code != cudaSuccess)
        return cuda_refuse(why, len, "cudaDriverGetVersion says: %s", cudaGetErrorString(code));
    if (driver == 0)
        return cuda_refuse(why, len, "this machine has no CUDA driver");
    if (!has_device(device, why, len))
        return false;
    if (wanted->on_pools && !cuda_supports(device, GPU_FEATURE_POOLS, why, len))
        return false;
    if (!has_versions(wanted, driver, why, len) || !has_attribute(wanted, driver, device, why, len))
        return false;
    if (feature == GPU_FEATURE_MAPPING)
        return may_map(device, why, len) && cuda_can_map(device, why, len);
    return feature != GPU_FEATURE_POOL_POSIX_FD || may_share(device, why, len);
}
