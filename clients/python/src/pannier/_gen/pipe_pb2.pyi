from pannier._gen import cap_pb2 as _cap_pb2
from pannier._gen import conversation_pb2 as _conversation_pb2
from pannier._gen import dedup_pb2 as _dedup_pb2
from pannier._gen import schedule_pb2 as _schedule_pb2
from pannier._gen import status_pb2 as _status_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PipeRequest(_message.Message):
    __slots__ = ("seq", "timeout_ms", "claim", "claim_batch", "complete_claim", "extend_claim", "release_claim", "get_conversation", "advance", "touch_conversation", "reset_conversation", "consume", "confirm", "refund", "peek", "note_inbound", "enqueue", "ingest")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    CLAIM_BATCH_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_CLAIM_FIELD_NUMBER: _ClassVar[int]
    EXTEND_CLAIM_FIELD_NUMBER: _ClassVar[int]
    RELEASE_CLAIM_FIELD_NUMBER: _ClassVar[int]
    GET_CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    ADVANCE_FIELD_NUMBER: _ClassVar[int]
    TOUCH_CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    RESET_CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    CONSUME_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    REFUND_FIELD_NUMBER: _ClassVar[int]
    PEEK_FIELD_NUMBER: _ClassVar[int]
    NOTE_INBOUND_FIELD_NUMBER: _ClassVar[int]
    ENQUEUE_FIELD_NUMBER: _ClassVar[int]
    INGEST_FIELD_NUMBER: _ClassVar[int]
    seq: int
    timeout_ms: int
    claim: _dedup_pb2.ClaimRequest
    claim_batch: _dedup_pb2.ClaimBatchRequest
    complete_claim: _dedup_pb2.CompleteClaimRequest
    extend_claim: _dedup_pb2.ExtendClaimRequest
    release_claim: _dedup_pb2.ReleaseClaimRequest
    get_conversation: _conversation_pb2.GetConversationRequest
    advance: _conversation_pb2.AdvanceRequest
    touch_conversation: _conversation_pb2.TouchConversationRequest
    reset_conversation: _conversation_pb2.ResetConversationRequest
    consume: _cap_pb2.ConsumeRequest
    confirm: _cap_pb2.ConfirmRequest
    refund: _cap_pb2.RefundRequest
    peek: _cap_pb2.PeekRequest
    note_inbound: _cap_pb2.NoteInboundRequest
    enqueue: _schedule_pb2.EnqueueRequest
    ingest: _schedule_pb2.IngestRequest
    def __init__(self, seq: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., claim: _Optional[_Union[_dedup_pb2.ClaimRequest, _Mapping]] = ..., claim_batch: _Optional[_Union[_dedup_pb2.ClaimBatchRequest, _Mapping]] = ..., complete_claim: _Optional[_Union[_dedup_pb2.CompleteClaimRequest, _Mapping]] = ..., extend_claim: _Optional[_Union[_dedup_pb2.ExtendClaimRequest, _Mapping]] = ..., release_claim: _Optional[_Union[_dedup_pb2.ReleaseClaimRequest, _Mapping]] = ..., get_conversation: _Optional[_Union[_conversation_pb2.GetConversationRequest, _Mapping]] = ..., advance: _Optional[_Union[_conversation_pb2.AdvanceRequest, _Mapping]] = ..., touch_conversation: _Optional[_Union[_conversation_pb2.TouchConversationRequest, _Mapping]] = ..., reset_conversation: _Optional[_Union[_conversation_pb2.ResetConversationRequest, _Mapping]] = ..., consume: _Optional[_Union[_cap_pb2.ConsumeRequest, _Mapping]] = ..., confirm: _Optional[_Union[_cap_pb2.ConfirmRequest, _Mapping]] = ..., refund: _Optional[_Union[_cap_pb2.RefundRequest, _Mapping]] = ..., peek: _Optional[_Union[_cap_pb2.PeekRequest, _Mapping]] = ..., note_inbound: _Optional[_Union[_cap_pb2.NoteInboundRequest, _Mapping]] = ..., enqueue: _Optional[_Union[_schedule_pb2.EnqueueRequest, _Mapping]] = ..., ingest: _Optional[_Union[_schedule_pb2.IngestRequest, _Mapping]] = ...) -> None: ...

class PipeResponse(_message.Message):
    __slots__ = ("seq", "error", "claim", "claim_batch", "complete_claim", "extend_claim", "release_claim", "get_conversation", "advance", "touch_conversation", "reset_conversation", "consume", "confirm", "refund", "peek", "note_inbound", "enqueue", "ingest")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    CLAIM_BATCH_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_CLAIM_FIELD_NUMBER: _ClassVar[int]
    EXTEND_CLAIM_FIELD_NUMBER: _ClassVar[int]
    RELEASE_CLAIM_FIELD_NUMBER: _ClassVar[int]
    GET_CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    ADVANCE_FIELD_NUMBER: _ClassVar[int]
    TOUCH_CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    RESET_CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    CONSUME_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    REFUND_FIELD_NUMBER: _ClassVar[int]
    PEEK_FIELD_NUMBER: _ClassVar[int]
    NOTE_INBOUND_FIELD_NUMBER: _ClassVar[int]
    ENQUEUE_FIELD_NUMBER: _ClassVar[int]
    INGEST_FIELD_NUMBER: _ClassVar[int]
    seq: int
    error: _status_pb2.Status
    claim: _dedup_pb2.ClaimResponse
    claim_batch: _dedup_pb2.ClaimBatchResponse
    complete_claim: _dedup_pb2.CompleteClaimResponse
    extend_claim: _dedup_pb2.ExtendClaimResponse
    release_claim: _dedup_pb2.ReleaseClaimResponse
    get_conversation: _conversation_pb2.GetConversationResponse
    advance: _conversation_pb2.AdvanceResponse
    touch_conversation: _conversation_pb2.TouchConversationResponse
    reset_conversation: _conversation_pb2.ResetConversationResponse
    consume: _cap_pb2.ConsumeResponse
    confirm: _cap_pb2.ConfirmResponse
    refund: _cap_pb2.RefundResponse
    peek: _cap_pb2.PeekResponse
    note_inbound: _cap_pb2.NoteInboundResponse
    enqueue: _schedule_pb2.EnqueueResponse
    ingest: _schedule_pb2.IngestResponse
    def __init__(self, seq: _Optional[int] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ..., claim: _Optional[_Union[_dedup_pb2.ClaimResponse, _Mapping]] = ..., claim_batch: _Optional[_Union[_dedup_pb2.ClaimBatchResponse, _Mapping]] = ..., complete_claim: _Optional[_Union[_dedup_pb2.CompleteClaimResponse, _Mapping]] = ..., extend_claim: _Optional[_Union[_dedup_pb2.ExtendClaimResponse, _Mapping]] = ..., release_claim: _Optional[_Union[_dedup_pb2.ReleaseClaimResponse, _Mapping]] = ..., get_conversation: _Optional[_Union[_conversation_pb2.GetConversationResponse, _Mapping]] = ..., advance: _Optional[_Union[_conversation_pb2.AdvanceResponse, _Mapping]] = ..., touch_conversation: _Optional[_Union[_conversation_pb2.TouchConversationResponse, _Mapping]] = ..., reset_conversation: _Optional[_Union[_conversation_pb2.ResetConversationResponse, _Mapping]] = ..., consume: _Optional[_Union[_cap_pb2.ConsumeResponse, _Mapping]] = ..., confirm: _Optional[_Union[_cap_pb2.ConfirmResponse, _Mapping]] = ..., refund: _Optional[_Union[_cap_pb2.RefundResponse, _Mapping]] = ..., peek: _Optional[_Union[_cap_pb2.PeekResponse, _Mapping]] = ..., note_inbound: _Optional[_Union[_cap_pb2.NoteInboundResponse, _Mapping]] = ..., enqueue: _Optional[_Union[_schedule_pb2.EnqueueResponse, _Mapping]] = ..., ingest: _Optional[_Union[_schedule_pb2.IngestResponse, _Mapping]] = ...) -> None: ...
