"""Protobuf: parsing by protoc, texts of descriptors, and compatibility on the wire."""
