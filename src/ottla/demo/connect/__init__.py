"""The demo's second act: the sample pipeline in six steps, as connectors and two Streams applications."""
