"""Says in one line when a kernel did not compile; all else about the build stands in pyproject.toml."""

from __future__ import annotations

import os
import shlex
import shutil
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class BuildKernels(build_ext):
    """Compiles the kernels, and fails the whole build when one cannot be compiled."""

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as error:
            raise SystemExit(f"headwater: kernel {ext.name} did not compile: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    compiler = shlex.split(command)[0]
    if shutil.which(compiler) is None:
        return f"a C compiler is missing ({compiler} was not found); install gcc or clang, or set CC"
    return str(error)


setup(cmdclass={"build_ext": BuildKernels})
