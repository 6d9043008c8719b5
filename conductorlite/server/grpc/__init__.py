"""Conductor's gRPC API over an engine: `grpc_server(engine)`, `grpc_served(engine)`."""
