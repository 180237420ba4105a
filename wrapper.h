/* The part of Triton's in-process C API that this program calls, declared by hand from its documentation.
 *
 * It includes nothing, so that bindgen needs libclang's library alone and none of its headers. A test compares these
 * declarations with the real tritonserver.h; it defines TRITON_REFERENCE_HEADER, which leaves the types to that. Symbols newer than the oldest supported release are resolved as optional at run time. */

#ifndef TRITON_REFERENCE_HEADER
typedef struct TRITONSERVER_BufferAttributes TRITONSERVER_BufferAttributes;
typedef struct TRITONSERVER_Error TRITONSERVER_Error;
typedef struct TRITONSERVER_InferenceRequest TRITONSERVER_InferenceRequest;
typedef struct TRITONSERVER_InferenceResponse TRITONSERVER_InferenceResponse;
typedef struct TRITONSERVER_InferenceTrace TRITONSERVER_InferenceTrace;
typedef struct TRITONSERVER_Message TRITONSERVER_Message;
typedef struct TRITONSERVER_Metrics TRITONSERVER_Metrics;
typedef struct TRITONSERVER_Parameter TRITONSERVER_Parameter;
typedef struct TRITONSERVER_ResponseAllocator TRITONSERVER_ResponseAllocator;
typedef struct TRITONSERVER_Server TRITONSERVER_Server;
typedef struct TRITONSERVER_ServerOptions TRITONSERVER_ServerOptions;

typedef unsigned int TRITONSERVER_DataType;
typedef unsigned int TRITONSERVER_Error_Code;
typedef unsigned int TRITONSERVER_InferenceTraceActivity;
typedef unsigned int TRITONSERVER_InferenceTraceLevel;
typedef unsigned int TRITONSERVER_LogFormat;
typedef unsigned int TRITONSERVER_MemoryType;
typedef unsigned int TRITONSERVER_MetricFormat;
typedef unsigned int TRITONSERVER_ModelControlMode;
typedef unsigned int TRITONSERVER_ParameterType;
typedef unsigned int TRITONSERVER_RateLimitMode;

typedef TRITONSERVER_Error* (*TRITONSERVER_ResponseAllocatorAllocFn_t)(
    TRITONSERVER_ResponseAllocator*, const char* tensor_name, __SIZE_TYPE__ byte_size,
    TRITONSERVER_MemoryType preferred_type, __INT64_TYPE__ preferred_id, void* userp, void** buffer,
    void** buffer_userp, TRITONSERVER_MemoryType* actual_type, __INT64_TYPE__* actual_id);
typedef TRITONSERVER_Error* (*TRITONSERVER_ResponseAllocatorReleaseFn_t)(
    TRITONSERVER_ResponseAllocator*, void* buffer, void* buffer_userp, __SIZE_TYPE__ byte_size,
    TRITONSERVER_MemoryType type, __INT64_TYPE__ id);
typedef TRITONSERVER_Error* (*TRITONSERVER_ResponseAllocatorStartFn_t)(TRITONSERVER_ResponseAllocator*, void* userp);
typedef TRITONSERVER_Error* (*TRITONSERVER_ResponseAllocatorQueryFn_t)(
    TRITONSERVER_ResponseAllocator*, void* userp, const char* tensor_name, __SIZE_TYPE__* byte_size,
    TRITONSERVER_MemoryType* type, __INT64_TYPE__* id);
typedef void (*TRITONSERVER_InferenceRequestReleaseFn_t)(
    TRITONSERVER_InferenceRequest*, const __UINT32_TYPE__ flags, void* userp);
typedef void (*TRITONSERVER_InferenceTraceActivityFn_t)(
    TRITONSERVER_InferenceTrace*, TRITONSERVER_InferenceTraceActivity, __UINT64_TYPE__ timestamp_ns, void* userp);
typedef void (*TRITONSERVER_InferenceTraceReleaseFn_t)(TRITONSERVER_InferenceTrace*, void* userp);
typedef void (*TRITONSERVER_InferenceResponseCompleteFn_t)(
    TRITONSERVER_InferenceResponse*, const __UINT32_TYPE__ flags, void* userp);
#endif

/* Basics */
TRITONSERVER_Error* TRITONSERVER_ApiVersion(__UINT32_TYPE__* major, __UINT32_TYPE__* minor);
TRITONSERVER_Error* TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char* message);
void TRITONSERVER_ErrorDelete(TRITONSERVER_Error*);
TRITONSERVER_Error_Code TRITONSERVER_ErrorCode(TRITONSERVER_Error*);
const char* TRITONSERVER_ErrorCodeString(TRITONSERVER_Error*);
const char* TRITONSERVER_ErrorMessage(TRITONSERVER_Error*);
TRITONSERVER_Error* TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message*, const char** base, __SIZE_TYPE__* size);
TRITONSERVER_Error* TRITONSERVER_MessageDelete(TRITONSERVER_Message*);

/* Server options */
TRITONSERVER_Error* TRITONSERVER_ServerOptionsNew(TRITONSERVER_ServerOptions**);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsDelete(TRITONSERVER_ServerOptions*);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetModelRepositoryPath(TRITONSERVER_ServerOptions*, const char* path);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetModelControlMode(TRITONSERVER_ServerOptions*, TRITONSERVER_ModelControlMode);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetStrictModelConfig(TRITONSERVER_ServerOptions*, _Bool);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetModelConfigName(TRITONSERVER_ServerOptions*, const char*);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetRateLimiterMode(TRITONSERVER_ServerOptions*, TRITONSERVER_RateLimitMode);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsAddRateLimiterResource(
    TRITONSERVER_ServerOptions*, const char* name, const __SIZE_TYPE__ count, const int device);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetPinnedMemoryPoolByteSize(TRITONSERVER_ServerOptions*, __UINT64_TYPE__);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetCudaMemoryPoolByteSize(TRITONSERVER_ServerOptions*, int device, __UINT64_TYPE__);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetCudaVirtualAddressSize(TRITONSERVER_ServerOptions*, int device, __SIZE_TYPE__);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetCacheConfig(TRITONSERVER_ServerOptions*, const char* name, const char* json);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetCacheDirectory(TRITONSERVER_ServerOptions*, const char*);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetMinSupportedComputeCapability(TRITONSERVER_ServerOptions*, double);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetExitTimeout(TRITONSERVER_ServerOptions*, unsigned int seconds);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetBufferManagerThreadCount(TRITONSERVER_ServerOptions*, unsigned int);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetModelLoadThreadCount(TRITONSERVER_ServerOptions*, unsigned int);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetModelLoadRetryCount(TRITONSERVER_ServerOptions*, unsigned int);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetModelNamespacing(TRITONSERVER_ServerOptions*, _Bool);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetEnablePeerAccess(TRITONSERVER_ServerOptions*, _Bool);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetLogFile(TRITONSERVER_ServerOptions*, const char*);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetLogInfo(TRITONSERVER_ServerOptions*, _Bool);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetLogWarn(TRITONSERVER_ServerOptions*, _Bool);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetLogError(TRITONSERVER_ServerOptions*, _Bool);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetLogVerbose(TRITONSERVER_ServerOptions*, int);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetLogFormat(TRITONSERVER_ServerOptions*, const TRITONSERVER_LogFormat);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetMetrics(TRITONSERVER_ServerOptions*, _Bool);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetGpuMetrics(TRITONSERVER_ServerOptions*, _Bool);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetCpuMetrics(TRITONSERVER_ServerOptions*, _Bool);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetMetricsInterval(TRITONSERVER_ServerOptions*, __UINT64_TYPE__);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetMetricsConfig(
    TRITONSERVER_ServerOptions*, const char* name, const char* setting, const char* value);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetBackendDirectory(TRITONSERVER_ServerOptions*, const char*);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetRepoAgentDirectory(TRITONSERVER_ServerOptions*, const char*);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetBackendConfig(
    TRITONSERVER_ServerOptions*, const char* backend, const char* setting, const char* value);
TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetHostPolicy(
    TRITONSERVER_ServerOptions*, const char* policy, const char* setting, const char* value);

/* Server */
TRITONSERVER_Error* TRITONSERVER_ServerNew(TRITONSERVER_Server**, TRITONSERVER_ServerOptions*);
TRITONSERVER_Error* TRITONSERVER_ServerDelete(TRITONSERVER_Server*);
TRITONSERVER_Error* TRITONSERVER_ServerStop(TRITONSERVER_Server*);
TRITONSERVER_Error* TRITONSERVER_ServerModelIsReady(TRITONSERVER_Server*, const char* model, const __INT64_TYPE__ version, _Bool*);
TRITONSERVER_Error* TRITONSERVER_ServerMetadata(TRITONSERVER_Server*, TRITONSERVER_Message**);
TRITONSERVER_Error* TRITONSERVER_ServerModelMetadata(
    TRITONSERVER_Server*, const char* model, const __INT64_TYPE__ version, TRITONSERVER_Message**);
TRITONSERVER_Error* TRITONSERVER_ServerModelConfig(
    TRITONSERVER_Server*, const char* model, const __INT64_TYPE__ version, const __UINT32_TYPE__ config_version,
    TRITONSERVER_Message**);
TRITONSERVER_Error* TRITONSERVER_ServerModelStatistics(
    TRITONSERVER_Server*, const char* model, const __INT64_TYPE__ version, TRITONSERVER_Message**);
TRITONSERVER_Error* TRITONSERVER_ServerModelIndex(TRITONSERVER_Server*, __UINT32_TYPE__ flags, TRITONSERVER_Message**);
TRITONSERVER_Error* TRITONSERVER_ServerLoadModel(TRITONSERVER_Server*, const char* model);
TRITONSERVER_Error* TRITONSERVER_ServerLoadModelWithParameters(
    TRITONSERVER_Server*, const char* model, const TRITONSERVER_Parameter** parameters, const __UINT64_TYPE__ count);
TRITONSERVER_Parameter* TRITONSERVER_ParameterNew(const char* name, const TRITONSERVER_ParameterType, const void* value);
void TRITONSERVER_ParameterDelete(TRITONSERVER_Parameter*);
TRITONSERVER_Error* TRITONSERVER_ServerUnloadModel(TRITONSERVER_Server*, const char* model);
TRITONSERVER_Error* TRITONSERVER_ServerUnloadModelAndDependents(TRITONSERVER_Server*, const char* model);
TRITONSERVER_Error* TRITONSERVER_ServerMetrics(TRITONSERVER_Server*, TRITONSERVER_Metrics**);
TRITONSERVER_Error* TRITONSERVER_MetricsFormatted(
    TRITONSERVER_Metrics*, TRITONSERVER_MetricFormat, const char** base, __SIZE_TYPE__* size);
TRITONSERVER_Error* TRITONSERVER_MetricsDelete(TRITONSERVER_Metrics*);
TRITONSERVER_Error* TRITONSERVER_ServerInferAsync(
    TRITONSERVER_Server*, TRITONSERVER_InferenceRequest*, TRITONSERVER_InferenceTrace*);

/* Requests */
TRITONSERVER_Error* TRITONSERVER_InferenceRequestNew(
    TRITONSERVER_InferenceRequest**, TRITONSERVER_Server*, const char* model, const __INT64_TYPE__ version);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestDelete(TRITONSERVER_InferenceRequest*);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestSetFlags(TRITONSERVER_InferenceRequest*, __UINT32_TYPE__);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestSetCorrelationId(TRITONSERVER_InferenceRequest*, __UINT64_TYPE__);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestSetCorrelationIdString(TRITONSERVER_InferenceRequest*, const char*);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestSetPriorityUInt64(TRITONSERVER_InferenceRequest*, __UINT64_TYPE__);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestSetPriority(TRITONSERVER_InferenceRequest*, __UINT32_TYPE__);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(TRITONSERVER_InferenceRequest*, __UINT64_TYPE__);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestAddInput(
    TRITONSERVER_InferenceRequest*, const char* name, const TRITONSERVER_DataType, const __INT64_TYPE__* shape,
    __UINT64_TYPE__ dims);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestRemoveAllInputs(TRITONSERVER_InferenceRequest*);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestRemoveAllInputData(TRITONSERVER_InferenceRequest*, const char* name);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestAppendInputData(
    TRITONSERVER_InferenceRequest*, const char* name, const void* base, __SIZE_TYPE__ size, TRITONSERVER_MemoryType,
    __INT64_TYPE__ id);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestSetStringParameter(TRITONSERVER_InferenceRequest*, const char* key, const char*);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestSetIntParameter(TRITONSERVER_InferenceRequest*, const char* key, const __INT64_TYPE__);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestSetBoolParameter(TRITONSERVER_InferenceRequest*, const char* key, const _Bool);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestSetDoubleParameter(TRITONSERVER_InferenceRequest*, const char* key, const double);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestCancel(TRITONSERVER_InferenceRequest*);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestSetReleaseCallback(
    TRITONSERVER_InferenceRequest*, TRITONSERVER_InferenceRequestReleaseFn_t, void* userp);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestSetResponseCallback(
    TRITONSERVER_InferenceRequest*, TRITONSERVER_ResponseAllocator*, void* allocator_userp,
    TRITONSERVER_InferenceResponseCompleteFn_t, void* userp);

/* Responses */
TRITONSERVER_Error* TRITONSERVER_ResponseAllocatorNew(
    TRITONSERVER_ResponseAllocator**, TRITONSERVER_ResponseAllocatorAllocFn_t, TRITONSERVER_ResponseAllocatorReleaseFn_t,
    TRITONSERVER_ResponseAllocatorStartFn_t);
TRITONSERVER_Error* TRITONSERVER_ResponseAllocatorSetQueryFunction(
    TRITONSERVER_ResponseAllocator*, TRITONSERVER_ResponseAllocatorQueryFn_t);
TRITONSERVER_Error* TRITONSERVER_ResponseAllocatorDelete(TRITONSERVER_ResponseAllocator*);
TRITONSERVER_Error* TRITONSERVER_InferenceResponseError(TRITONSERVER_InferenceResponse*);
TRITONSERVER_Error* TRITONSERVER_InferenceResponseDelete(TRITONSERVER_InferenceResponse*);
TRITONSERVER_Error* TRITONSERVER_InferenceResponseOutputCount(TRITONSERVER_InferenceResponse*, __UINT32_TYPE__*);
TRITONSERVER_Error* TRITONSERVER_InferenceResponseOutput(
    TRITONSERVER_InferenceResponse*, const __UINT32_TYPE__ index, const char** name, TRITONSERVER_DataType*,
    const __INT64_TYPE__** shape, __UINT64_TYPE__* dims, const void** base, __SIZE_TYPE__* size, TRITONSERVER_MemoryType*,
    __INT64_TYPE__* id, void** buffer_userp);

/* Traces */
TRITONSERVER_Error* TRITONSERVER_InferenceTraceNew(
    TRITONSERVER_InferenceTrace**, TRITONSERVER_InferenceTraceLevel, __UINT64_TYPE__ parent_id,
    TRITONSERVER_InferenceTraceActivityFn_t, TRITONSERVER_InferenceTraceReleaseFn_t, void* userp);
TRITONSERVER_Error* TRITONSERVER_InferenceTraceDelete(TRITONSERVER_InferenceTrace*);
TRITONSERVER_Error* TRITONSERVER_InferenceTraceId(TRITONSERVER_InferenceTrace*, __UINT64_TYPE__* id);
TRITONSERVER_Error* TRITONSERVER_InferenceTraceParentId(TRITONSERVER_InferenceTrace*, __UINT64_TYPE__* parent_id);
TRITONSERVER_Error* TRITONSERVER_InferenceTraceModelName(TRITONSERVER_InferenceTrace*, const char** model_name);
TRITONSERVER_Error* TRITONSERVER_InferenceTraceModelVersion(TRITONSERVER_InferenceTrace*, __INT64_TYPE__* model_version);
