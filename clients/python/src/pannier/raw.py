"""Generated messages and stubs, for what this package does not wrap. They share the client's channel; give your own deadlines.

stub = pannier.raw.schedule_pb2_grpc.ScheduleServiceStub(client.raw_channel)
stub.GetQueue(pannier.raw.schedule_pb2.GetQueueRequest(queue="q"), timeout=5, metadata=client.raw_metadata)
"""

from ._gen import (
    admin_pb2,
    admin_pb2_grpc,
    blob_pb2,
    blob_pb2_grpc,
    cap_pb2,
    cap_pb2_grpc,
    conversation_pb2,
    conversation_pb2_grpc,
    dedup_pb2,
    dedup_pb2_grpc,
    pipe_pb2,
    pipe_pb2_grpc,
    schedule_pb2,
    schedule_pb2_grpc,
    session_pb2,
    session_pb2_grpc,
    status_pb2,
)

__all__ = [
    "admin_pb2",
    "admin_pb2_grpc",
    "blob_pb2",
    "blob_pb2_grpc",
    "cap_pb2",
    "cap_pb2_grpc",
    "conversation_pb2",
    "conversation_pb2_grpc",
    "dedup_pb2",
    "dedup_pb2_grpc",
    "pipe_pb2",
    "pipe_pb2_grpc",
    "schedule_pb2",
    "schedule_pb2_grpc",
    "session_pb2",
    "session_pb2_grpc",
    "status_pb2",
]
