"""What the reference frontend's programs ask of a backend, beside running on it."""

from typing import Self

from lmc.ir.target import Target


class ServerNames:
    """Names of its endpoint and its server, for a backend in this process."""

    target: Target

    @property
    def endpoint(self) -> Self:
        """The backend itself: there is no server between."""
        return self

    @property
    def model_info(self) -> dict[str, str]:
        """The model's name as 'model_path'."""
        return {"model_path": self.target.name}

    def get_model_name(self) -> str:
        """Return the model's name."""
        return self.target.name

    def shutdown(self) -> None:
        """Do nothing: other programs may run on the model; it closes with the process."""
