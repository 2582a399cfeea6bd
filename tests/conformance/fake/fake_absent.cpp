// Entry points of the driver that the fake one has only by name: each is CUDA_ERROR_NOT_SUPPORTED. Without
// cuda.h, whose types they lack.
#define ABSENT(name) \
  extern "C" int name() { return 801; }
ABSENT(cuDevicePrimaryCtxRelease_v2)
ABSENT(cuCtxSynchronize)
ABSENT(cuStreamSynchronize)
ABSENT(cuStreamBeginCapture_v2)
ABSENT(cuStreamEndCapture)
ABSENT(cuEventSynchronize)
ABSENT(cuGraphInstantiateWithFlags)
ABSENT(cuGraphLaunch)
ABSENT(cuGraphDestroy)
ABSENT(cuGraphExecDestroy)
ABSENT(cuGraphGetNodes)
ABSENT(cuModuleLoadData)
ABSENT(cuModuleUnload)
ABSENT(cuModuleGetFunction)
ABSENT(cuFuncSetAttribute)
ABSENT(cuFuncGetAttribute)
ABSENT(cuLaunchKernel)
ABSENT(cuOccupancyMaxActiveBlocksPerMultiprocessor)
