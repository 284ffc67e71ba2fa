"""Puts the command into wheels, and its source into the sdist: hatchling runs this when it builds.

A wheel is for one platform: that of MINSEP_PLATFORM, such as linux/arm64, or of this machine. Go
builds the command for any of them on any of them. MINSEP_PLATFORM=none makes a package without the
command, which reads run directories.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# As in the Makefile: small, and the same bytes wherever it is built. The tag leaves out what the client of gs:// needs for gRPC
# only, which nothing here uses: a sixth of the program. The last flag is for wheels: they are the same from a clone, with changes in
# it or without git, and from an sdist.
BUILD = ["build", "-trimpath", "-tags=disable_grpc_modules", "-ldflags=-s -w", "-buildvcs=false"]

# The tags of a platform's wheel. On Linux the command is static, so that any libc will do; macOS 12 is the first that Go's programs
# run on.
PLATFORMS = {
    "linux/amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
    "linux/arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
    "darwin/amd64": "macosx_12_0_x86_64",
    "darwin/arm64": "macosx_12_0_arm64",
}

# Why there is no wheel for a system that somebody will ask for.
REFUSED = {
    "windows": "secrets are kept from others by file modes, and run ids from a second use by flock and by folders that are synced: Windows"
    " has neither. Use WSL"
}

WITHOUT = "MINSEP_PLATFORM=none makes a package without the command, which reads run directories"


class Refused(Exception):
    """A package that cannot be made, with the reason and the way out."""


class CommandHook(BuildHookInterface[Any]):
    """The hook, by its name in pyproject.toml."""

    made: pathlib.Path | None = None  # the folder of what goes into a wheel

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = pathlib.Path(self.root)
        if self.target_name == "sdist":
            build_data["force_include"].update({str(path): f"go/{name}" for name, path in source_files(go_source(root)).items()})
            return
        platform = os.environ.get("MINSEP_PLATFORM") or this_platform()
        if platform == "none":
            return
        build_data["tag"] = f"py3-none-{tags(platform)}"
        self.made = made = pathlib.Path(tempfile.mkdtemp(prefix="minsep-wheel-"))
        make(go_source(root), platform, made, self.metadata.version)
        build_data["pure_python"] = False
        build_data["shared_scripts"][str(made / "minsep")] = "minsep"
        build_data["sbom_files"].append(str(made / "minsep.cdx.json"))
        build_data["force_include"][str(made / "NOTICES")] = "minsep/NOTICES"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self.made is not None:
            shutil.rmtree(self.made)


def tags(platform: str) -> str:
    """The tags of a platform's wheel."""
    if platform not in PLATFORMS:
        system = platform.split("/")[0]
        why = REFUSED.get(system, f"wheels are for {', '.join(PLATFORMS)}: build the command with Go, and name it in MINSEP_COMMAND")
        raise Refused(f"MINSEP_PLATFORM {platform}: {why}. {WITHOUT}")
    return PLATFORMS[platform]


def go(*arguments: str, source: pathlib.Path | None = None, platform: str = "") -> str:
    """What the go command prints."""
    system, _, processor = platform.partition("/")
    pinned = {"GOWORK": "off", "CGO_ENABLED": "0", "GOFLAGS": "", "GOAMD64": "v1", "GOARM64": "v8.0"}
    target = {"GOOS": system, "GOARCH": processor} if platform else {}
    program = shutil.which("go")
    if program is None:
        raise Refused(f"go: not found: this builds the command and needs Go 1.26: install Go, or a wheel of this platform. {WITHOUT}")
    done = subprocess.run([program, *arguments], cwd=source, env={**os.environ, **pinned, **target}, capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"go {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def this_platform() -> str:
    """The platform of this machine, as Go names it."""
    return "/".join(go("env", "GOHOSTOS", "GOHOSTARCH").split())


def go_source(root: pathlib.Path) -> pathlib.Path:
    """The folder of the command's source: beside this one in a clone, below it in an sdist."""
    for source in root / "go", root.parent:
        if (source / "go.mod").is_file() and (source / "cmd" / "minsep").is_dir():
            return source
    raise Refused(f"{root}: is neither in a clone nor of an sdist, and has not the source of the command. {WITHOUT}")


def packages(source: pathlib.Path, platform: str) -> list[dict[str, Any]]:
    """The packages that the command links, as `go list -json` describes them."""
    text, found, at = go("list", "-deps", "-json", BUILD[2], "./cmd/minsep", source=source, platform=platform), [], 0
    decoder = json.JSONDecoder()
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        package, at = decoder.raw_decode(text, at)
        found.append(package)
    return found


def source_files(source: pathlib.Path) -> dict[str, pathlib.Path]:
    """The files that the command is built from on any platform, without tests, by their names in the source."""
    files = {source / name for name in ("go.mod", "go.sum", "LICENSE")}
    for package in packages(source, "linux/amd64"):
        if package.get("Module", {}).get("Main"):
            folder = pathlib.Path(package["Dir"])
            files.update(path for path in folder.iterdir() if path.suffix in (".go", ".s", ".h") and not path.stem.endswith("_test"))
            files.update(folder / name for name in package.get("EmbedFiles", []))
    return {path.relative_to(source).as_posix(): path for path in sorted(files)}


def make(source: pathlib.Path, platform: str, made: pathlib.Path, version: str) -> None:
    """The command of a platform, with the list of what is in it and the licences of that, in a folder."""
    go(*BUILD, "-o", str(made / "minsep"), "./cmd/minsep", source=source, platform=platform)
    (made / "minsep.cdx.json").write_text(json.dumps(bill_of_materials(made / "minsep", version), indent=1) + "\n", encoding="utf-8")
    (made / "NOTICES").write_text(notices(packages(source, platform)), encoding="utf-8")


def bill_of_materials(program: pathlib.Path, version: str) -> dict[str, Any]:
    """What is linked into the command, as CycloneDX 1.6 has it: Go's own record of the modules in a program."""
    lines = [line.split("\t") for line in go("version", "-m", str(program)).splitlines()]
    components = [component("std", lines[0][0].rsplit(" ", 1)[1].removeprefix("go"))]
    components += [component(*line[2:5]) for line in lines if line[1:2] == ["dep"]]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "minsep", "name": "minsep", "version": version, "licenses": [{"license": {"id": "Apache-2.0"}}]}},
        "components": components,
        "dependencies": [{"ref": "minsep", "dependsOn": [c["bom-ref"] for c in components]}],
    }


def component(module: str, version: str, tree: str = "") -> dict[str, Any]:
    """A Go module. tree is the hash of its files that go.sum has."""
    purl = f"pkg:golang/{module}@{version}"
    found: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": module, "version": version, "purl": purl}
    if tree.startswith("h1:"):
        found["hashes"] = [{"alg": "SHA-256", "content": base64.b64decode(tree[3:]).hex()}]
    return found


def notices(linked: list[dict[str, Any]]) -> str:
    """The licences and notices of Go and of all modules in the command, as they ask everybody who hands it on to do."""
    texts: dict[str, set[str]] = {}
    for package in linked:
        module = package.get("Module")
        if module is None or module.get("Main"):
            continue
        top, folder = pathlib.Path(module["Dir"]), pathlib.Path(package["Dir"])
        while True:
            for path in folder.iterdir():
                if path.is_file() and path.name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE", "COPYRIGHT", "PATENTS")):
                    texts.setdefault(path.read_text(encoding="utf-8", errors="replace").strip(), set()).add(f"{module['Path']} {module['Version']}")
            if folder == top:
                break
            folder = folder.parent
    license_of_go = pathlib.Path(go("env", "GOROOT").strip(), "LICENSE")
    if license_of_go.is_file():
        texts.setdefault(license_of_go.read_text(encoding="utf-8").strip(), set()).add("Go")
    parts = sorted((sorted(modules), text) for text, modules in texts.items())
    return "The command minsep contains the following.\n\n" + "\n\n".join("\n".join(["=" * 100, *modules, "-" * 100, text]) for modules, text in parts) + "\n"
