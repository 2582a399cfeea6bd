"""Turns a plain wheel into one that runs on any Debian 12 or later: scripts/wheel.py PLAIN.whl WORK OUT

It puts Open MPI with its plugins into lockstep/lib, under their own names, and trainrun into lockstep/bin,
replaced by a script. auditwheel adds the other libraries under new names. The origin and licence of each library
are written into the wheel's dist-info, and into an SBOM (CycloneDX) next to the wheel.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

# Open MPI opens its plugins by path, and these load its libraries by name. The kernels that a run compiles also load
# libgomp by name, and a process must have only one OpenMP.
BY_NAME = ["libmpi.so.40", "libmpi_cxx.so.40", "libopen-rte.so.40", "libopen-pal.so.40", "libpmix.so.2",
           "libmca_common_sm.so.40",
           "libgomp.so.1"]
# The Open MPI plugins that ranks open, on one host or on several over TCP. A wheel has no mpirun or daemons.
PLUGINS = """
  allocator_basic allocator_bucket bml_r2 btl_self btl_tcp btl_vader coll_basic coll_inter coll_libnbc coll_self
  coll_sm coll_tuned ess_env ess_pmi ess_singleton errmgr_default_app grpcomm_direct mpool_hugepage oob_tcp op_avx
  osc_pt2pt osc_rdma osc_sm patcher_overwrite pmix_ext3x pmix_isolated pml_ob1 pstat_linux rcache_grdma
  reachable_weighted regx_fwd regx_naive regx_reverse rml_oob routed_binomial routed_direct routed_radix schizo_ompi
  schizo_orte shmem_mmap shmem_posix shmem_sysv state_app topo_basic
""".split()
PREFIX = "lib/x86_64-linux-gnu/openmpi/lib/openmpi3"  # of Debian's Open MPI, below OPAL_PREFIX
PLATFORM = "manylinux_2_36_x86_64"
SHIM = '''#!python
import os
import sys

for folder in sys.path:
    program = os.path.join(folder, "lockstep", "bin", "trainrun")
    if os.path.isfile(program):
        os.environ.setdefault("LOCKSTEP_PYTHON", sys.executable)
        os.execv(program, sys.argv)
sys.exit("trainrun: lockstep is not installed for " + sys.executable)
'''


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def library(name):
    """The path at which the linker finds it."""
    for line in run("/sbin/ldconfig", "-p").splitlines():
        if found := re.match(rf"\s+{re.escape(name)} \(libc6,x86-64.*=> (\S+)", line):
            return pathlib.Path(found[1]).resolve()
    sys.exit(f"wheel.py: {name} is not here; scripts/install.sh brings it")


def package_of(path):
    """The Debian package of a file, and its version."""
    names = {str(path), str(path).removeprefix("/usr")} | {f"/usr{path}"}
    for name in names:
        found = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True)
        if found.returncode == 0:
            package = found.stdout.split(":")[0].split(",")[0]
            return package, run("dpkg-query", "-W", "-f", "${Version}\n", package).splitlines()[0]
    sys.exit(f"wheel.py: {path} is of no package of Debian, so its licence is not known")


def place(source, folder, rpath):
    target = folder / source.name
    shutil.copy(source, target)
    run("patchelf", "--set-rpath", rpath, str(target))
    return target


plain, work, out = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
shutil.rmtree(work, ignore_errors=True)
work.mkdir(parents=True)
run("wheel", "unpack", "--dest", str(work), str(plain))
tree = next(work.iterdir())
info = next(tree.glob("*.dist-info"))
version = tree.name.split("-")[1]
for name in ("LICENSE", "NOTICE"):
    if not (info / "licenses" / name).is_file():
        sys.exit(f"wheel.py: {plain} has no {name}; pyproject.toml's license-files names it")
lib, bin_ = tree / "lockstep/lib", tree / "lockstep/bin"
plugins, words = lib / "openmpi" / PREFIX, lib / "openmpi/share/openmpi"
for folder in (bin_, plugins, words):
    folder.mkdir(parents=True)

sources = []  # of what is copied
for name in BY_NAME:
    sources.append(library(name))
    place(sources[-1], lib, "$ORIGIN").rename(lib / name)
for name in PLUGINS:
    sources.append(pathlib.Path("/usr") / PREFIX / f"mca_{name}.so")
    place(sources[-1], plugins, "$ORIGIN/" + os.path.relpath(lib, plugins))
for text in pathlib.Path("/usr/share/openmpi").glob("help-*.txt"):
    shutil.copy(text, words)

script = tree / f"lockstep-{version}.data/scripts/trainrun"
script.rename(bin_ / "trainrun")
script.write_text(SHIM)
script.chmod(0o755)
modules = [bin_ / "trainrun", *(tree / "lockstep").glob("_core*.so")]
for module in modules:
    run("strip", "--strip-unneeded", str(module))
    run("patchelf", "--set-rpath", "$ORIGIN/" + os.path.relpath(lib, module.parent), str(module))

# Licences and versions of all libraries, including those that auditwheel will add: everything that ldd resolves outside of the wheel.
whitelist = re.compile(r"ld-linux|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s)\.so")
for line in run("ldd", *map(str, [*modules, *plugins.iterdir()])).splitlines():
    if (found := re.search(r"=> (/\S+)", line)) and not whitelist.search(found[1]) and str(tree) not in found[1]:
        sources.append(pathlib.Path(found[1]).resolve())
packages = sorted({package_of(source) for source in sources})
licences = info / "licenses/libraries"
licences.mkdir(parents=True)
for package, _ in packages:
    shutil.copy(f"/usr/share/doc/{package}/copyright", licences / package)
for common in ("GPL-2", "GPL-3", "LGPL-2.1", "LGPL-3"):
    shutil.copy(f"/usr/share/common-licenses/{common}", licences / common)
sbom = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {"type": "library", "name": "lockstep", "version": version,
                                   "licenses": [{"license": {"id": "Apache-2.0"}}]}},
        "components": [{"type": "library", "name": package, "version": number,
                        "purl": f"pkg:deb/debian/{package}@{number}?arch=amd64"}
                       for package, number in packages]}
text = json.dumps(sbom, indent=1) + "\n"
(info / "sboms").mkdir(exist_ok=True)
(info / "sboms/lockstep.cdx.json").write_text(text)
(out / f"lockstep-{version}.cdx.json").write_text(text)

packed = work / "packed"
packed.mkdir()
run("wheel", "pack", "--dest-dir", str(packed), str(tree))
excluded = [word for name in BY_NAME for word in ("--exclude", name)]
repaired = work / "repaired"
run("auditwheel", "repair", "--plat", PLATFORM, "-z", "1", *excluded, "--wheel-dir", str(repaired),
    str(next(packed.iterdir())))
wheel = next(repaired.iterdir())
run("advzip", "--recompress", "--shrink-normal", str(wheel))  # a megabyte less than zlib
shutil.move(wheel, out)
