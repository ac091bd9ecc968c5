"""Each share group API's answer that holds only an error, in the field where the API has it."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest
from ottla.protocol.messages.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse
from ottla.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from ottla.protocol.messages.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse
from ottla.protocol.messages.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequest
from ottla.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from ottla.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse
from ottla.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from ottla.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from ottla.protocol.schema import Message


def share_group_error(request: Message, error: ErrorCode) -> Message:
    """An answer that refuses `request` as a whole with `error`. Raises TypeError for any other request."""
    match request:
        case ShareGroupHeartbeatRequest():
            return ShareGroupHeartbeatResponse(error_code=error)
        case ShareGroupDescribeRequest():
            return ShareGroupDescribeResponse(
                groups=[
                    DescribedGroup(group_id=group_id, error_code=error, error_message=error.message)
                    for group_id in request.group_ids
                ]
            )
        case DescribeShareGroupOffsetsRequest():
            return DescribeShareGroupOffsetsResponse(
                groups=[
                    DescribeShareGroupOffsetsResponseGroup(
                        group_id=group.group_id, error_code=error, error_message=error.message
                    )
                    for group in request.groups
                ]
            )
        case AlterShareGroupOffsetsRequest():
            return AlterShareGroupOffsetsResponse(error_code=error, error_message=error.message)
        case DeleteShareGroupOffsetsRequest():
            return DeleteShareGroupOffsetsResponse(error_code=error, error_message=error.message)
        case _:
            raise TypeError(f"{type(request).__name__} is not a request to a group coordinator")
