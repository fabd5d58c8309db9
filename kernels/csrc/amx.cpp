// Asks the system for the tile registers.
#include "amx.h"

#include "parallel.h"

#if LMC_AMX
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace lmc {

#if LMC_AMX && defined(__linux__)
// Linux grants a process the large state of the registers on request; see
// Documentation/arch/x86/xstate.rst in its sources.
bool use_amx() {
    constexpr int REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;
    static const bool granted = syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
    return granted;
}
#else
bool use_amx() { return false; }
#endif

}  // namespace lmc

LMC_EXPORT int lmc_uses_amx() { return lmc::use_amx(); }
