"""Find users that click too fast: three or more clicks of a user within a minute of event time.

Clicks may come up to half a minute late. A window's count is sent once, when the window is closed by a click
half a minute after the window's end. Clicks for a closed window are dropped, and counted in the metrics.

The topics clicks and anomalies must exist; any Kafka client can create them.

    ottla streams run examples/streams/anomalies.py
"""

from datetime import timedelta

from ottla.pipeline.formats import TEXT, time_windowed
from ottla.streams import Emit, Streams, tumbling

MINUTE = timedelta(minutes=1)

app = Streams("anomalies")

minutes = app.stream("clicks", key=str).group_by_key().windowed_by(tumbling(MINUTE, grace=MINUTE / 2))

busy = minutes.count(emit=Emit.WINDOW_CLOSE).to_stream().filter(lambda user: user.value >= 3)

busy.to("anomalies", key=time_windowed(TEXT, window_size_ms=60_000), value=int)
