"""The engines that the tests run over; one more is a line here."""

from tests.engines.llama_cpp import LLAMA_CPP
from tests.engines.sglang import SGLANG
from tests.engines.vllm import VLLM

ENGINES = (VLLM, SGLANG, LLAMA_CPP)
