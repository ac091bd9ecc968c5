"""Protobuf: parsing by protoc, text from descriptors, and wire compatibility."""
