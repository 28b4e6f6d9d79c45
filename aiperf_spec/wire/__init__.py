"""The wire: bytes to events, events to responses, prompts to request bodies. No I/O."""
