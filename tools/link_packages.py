"""Build .lint/lmc, a view of the sources as the one package that they install as.

Static tools read files and cannot follow the package-dir mapping of pyproject.toml. This
folder of links, ignored by git, shows them the installed shape.
"""

from pathlib import Path

FOLDERS = ("frontend", "ir", "passes", "codegen", "runtime", "kernels")


def main() -> None:
    """Make the folder anew."""
    root = Path(__file__).resolve().parent.parent
    view = root / ".lint" / "lmc"
    view.mkdir(parents=True, exist_ok=True)
    for old in view.iterdir():
        old.unlink()
    targets = [root / name for name in FOLDERS]
    targets += [path for path in (root / "lmc").iterdir() if path.name != "__pycache__"]
    for target in targets:
        (view / target.name).symlink_to(Path("../..") / target.relative_to(root))


if __name__ == "__main__":
    main()
