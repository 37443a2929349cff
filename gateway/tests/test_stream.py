# SPDX-License-Identifier: MIT
"""The stream of MQTT packets: every packet is handled whole, however the bytes are split."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from helpers import make_certificates
from hypothesis import given
from hypothesis import strategies as st

from peel_gateway.model.messages import LONGEST_TOPIC, Message, MessageBatch
from peel_gateway.mqtt.stream import READ_BYTES, ReportStream, StreamError

TOPIC = ("peel/v1/lab/", "/report")
REPORT_TOPIC = "peel/v1/lab/2a/0000002a/report"
LONGEST = 70_000


def length(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = divmod(value, 128)
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def packet(first: int, body: bytes) -> bytes:
    return bytes([first]) + length(len(body)) + body


def publish(
    topic: bytes, payload: bytes, *, qos: int = 1, identifier: int = 7, properties: bytes | None = b""
) -> bytes:
    named = len(topic).to_bytes(2, "big") + topic + (identifier.to_bytes(2, "big") if qos else b"")
    return packet(
        0x30 | qos << 1, named + (b"" if properties is None else length(len(properties)) + properties) + payload
    )


def report(payload: bytes, identifier: int = 7, *, five: bool = True, qos: int = 1) -> bytes:
    return publish(REPORT_TOPIC.encode(), payload, qos=qos, identifier=identifier, properties=b"" if five else None)


class Line:
    """A stream and the broker's end of it: of a pair of sockets, or of TLS between them."""

    def __init__(self, *, five: bool = True, ends: tuple[socket.socket, socket.socket] | None = None) -> None:
        ours, self.broker = ends or socket.socketpair()
        self.stream = ReportStream(ours, topic=TOPIC, status="/status", properties=five, longest_packet=LONGEST)
        self.batches: list[MessageBatch] = []
        self.identifiers: list[int] = []
        self.rest = b""

    def feed(self, data: bytes) -> None:
        self.broker.sendall(data)
        received = self.stream.receive(1000)
        if received is not None:
            self.batches.append(received[0])
            self.identifiers += received[1].tolist()
        while self.stream.has_rest:
            self.rest += self.stream.recv(3)

    @property
    def payloads(self) -> list[bytes]:
        return [messages.payload(place) for messages in self.batches for place in range(len(messages))]

    def close(self) -> None:
        self.broker.close()
        self.stream.drop()


@pytest.fixture(params=[True, False], ids=["MQTT 5", "MQTT 3.1.1"])
def five(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def line(five: bool) -> Iterator[Line]:
    made = Line(five=five)
    yield made
    made.close()


def test_reports_and_the_rest_go_their_ways(line: Line, five: bool) -> None:
    connack, suback = packet(0x20, b"\0\0\0"), packet(0x90, b"\0\1\0\1")
    status = publish(b"peel/v1/lab/2a/0000002a/status", b"{}", qos=0, properties=b"" if five else None)
    line.feed(connack + report(b"one", 1, five=five) + suback + report(b"", 65535, five=five) + status)
    assert line.payloads == [b"one", b""]
    assert line.identifiers == [1, 65535]
    assert line.rest == connack + suback + status
    assert line.batches[0].topic(1) == REPORT_TOPIC


def test_a_report_of_qos_0_needs_no_acknowledgement(line: Line, five: bool) -> None:
    line.feed(report(b"x", qos=0, five=five))
    assert (line.payloads, line.identifiers) == ([b"x"], [0])


def test_every_fragment_of_a_stream_gives_the_same(five: bool) -> None:
    stream = (
        packet(0xD0, b"") + report(b"p" * 200, 300, five=five) + packet(0x40, b"\0\1") + report(b"q", 301, five=five)
    )
    for cut in range(len(stream) + 1):
        line = Line(five=five)
        line.feed(stream[:cut]) if cut else None
        line.feed(stream[cut:]) if cut < len(stream) else None
        assert line.payloads == [b"p" * 200, b"q"], cut
        assert line.rest == packet(0xD0, b"") + packet(0x40, b"\0\1"), cut
        line.close()


def test_byte_by_byte(line: Line, five: bool) -> None:
    for byte in report(b"slow", 9, five=five) * 3:
        line.feed(bytes([byte]))
    assert line.payloads == [b"slow"] * 3


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("report"), st.binary(max_size=300), st.integers(1, 65535)),
            st.tuples(
                st.just("rest"),
                st.binary(max_size=300),
                st.sampled_from([0x00, 0x20, 0x40, 0x90, 0xB0, 0xD0, 0xE0, 0xF0]),
            ),
        ),
        max_size=30,
    ),
    st.integers(1, 400),
)
def test_any_packets_in_any_fragments(packets: list[tuple[str, bytes, int]], step: int) -> None:
    line = Line()
    stream = b"".join(report(body, word) if kind == "report" else packet(word, body) for kind, body, word in packets)
    for start in range(0, len(stream), step):
        line.feed(stream[start : start + step])
    assert line.payloads == [body for kind, body, _ in packets if kind == "report"]
    assert line.identifiers == [word for kind, _, word in packets if kind == "report"]
    assert line.rest == b"".join(packet(word, body) for kind, body, word in packets if kind == "rest")
    line.close()


def test_no_more_reports_than_there_is_room_for(line: Line, five: bool) -> None:
    """Reports beyond the limit stay buffered, as do the packets behind them; they need no further byte from the socket."""
    line.broker.sendall(b"".join(report(bytes([n]), n, five=five) for n in range(1, 8)) + packet(0xD0, b""))
    counts = []
    while (received := line.stream.receive(3)) is not None:
        counts.append(received[1].tolist())
        assert line.stream.buffered == (len(counts) < 3)
    assert counts == [[1, 2, 3], [4, 5, 6], [7]]
    assert line.stream.recv(2) == packet(0xD0, b"")


def test_properties_are_passed_over() -> None:
    line = Line()
    line.feed(publish(REPORT_TOPIC.encode(), b"body", properties=b"\x26\0\1a\0\1b" * 40))
    assert line.payloads == [b"body"]
    line.close()


@pytest.mark.parametrize(
    "topic",
    ["peel/v1/lab/report/x", "peel/v1/other/2a/0000002a/report", "peel/v1/lab/report"[:14], "", "homeassistant/status"],
)
def test_what_is_no_report_is_not_taken_for_one(topic: str) -> None:
    line = Line()
    sent = publish(topic.encode(), b"x")
    line.feed(sent)
    assert (line.payloads, line.rest) == ([], sent)
    line.close()


def test_a_long_topic_is_cut() -> None:
    line = Line()
    topic = "peel/v1/lab/" + "x" * 60_000 + "/report"
    line.feed(publish(topic.encode(), b"x"))
    assert line.batches[0].topic(0) == topic[:LONGEST_TOPIC]
    assert line.payloads == [b"x"]
    line.close()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x32\xff\xff\xff\xff\x01", "not MQTT"),
        (b"\x32" + length(LONGEST + 1), "packet_bytes"),
        (b"\x20" + length(2**28 - 1), "packet_bytes"),
        (packet(0x32, b""), "not MQTT"),
        (packet(0x32, b"\0\x09peel"), "not MQTT"),
        (packet(0x32, len(REPORT_TOPIC).to_bytes(2, "big") + REPORT_TOPIC.encode() + b"\1"), "not MQTT"),
        (publish(REPORT_TOPIC.encode(), b"", identifier=0), "not MQTT"),
        (publish(REPORT_TOPIC.encode(), b"", qos=2), "QoS 2"),
        (publish(b"homeassistant/status", b"", qos=2), "QoS 2"),
        (publish(b"homeassistant/status", b"", qos=3), "not MQTT"),
        (publish(REPORT_TOPIC.encode(), b"", properties=None), "not MQTT"),
        (packet(0x32, len(REPORT_TOPIC).to_bytes(2, "big") + REPORT_TOPIC.encode() + b"\0\1\x7fabc"), "not MQTT"),
        (
            packet(0x32, len(REPORT_TOPIC).to_bytes(2, "big") + REPORT_TOPIC.encode() + b"\0\1\xff\xff\xff\xff"),
            "not MQTT",
        ),
    ],
)
def test_what_is_no_mqtt_ends_the_stream(data: bytes, said: str) -> None:
    line = Line()
    with pytest.raises(StreamError, match=said):
        line.feed(data)
    line.close()


def test_statuses_of_one_topic_are_limited(line: Line, five: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten at once, then one per second; other topics, reports and other packets pass."""
    properties, now = b"" if five else None, 5 * 10**9
    monkeypatch.setattr("peel_gateway.mqtt.stream.time.monotonic_ns", lambda: now)
    mine, other, gateway = (
        publish(topic, b"{}", qos=0, properties=properties)
        for topic in (b"peel/v1/lab/2a/0000002a/status", b"peel/v1/lab/2b/0000002b/status", b"homeassistant/status")
    )
    pong = packet(0xD0, b"")
    line.feed(mine * 50 + other + pong + report(b"x", 1, five=five) + gateway * 20)
    assert (line.rest, line.payloads) == (mine * 10 + other + pong + gateway * 20, [b"x"])
    assert line.stream.limited == 40
    line.rest, now = b"", 7 * 10**9
    line.feed(mine * 50)
    assert line.rest == mine * 2


def test_a_broker_that_does_not_read_is_congested() -> None:
    line = Line()
    identifiers = np.arange(1, 65_536, dtype=np.uint16)
    for _ in range(4):
        line.stream.acknowledge(identifiers)
        assert not line.stream.congested
    for _ in range(8):
        line.stream.acknowledge(identifiers)
        line.stream.flush()
    assert line.stream.congested
    line.close()


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("topic", [REPORT_TOPIC, "homeassistant/status"])
@pytest.mark.parametrize("cut", [1, 3, 40, 5000, READ_BYTES])
def test_a_message_beyond_the_limit_is_acknowledged_and_passed_over(qos: int, topic: str, cut: int) -> None:
    """However the stream is cut. MQTT 3.1.1 cannot forbid it, and the broker would send it with every connection again."""
    line = Line(five=False)
    long = publish(topic.encode(), bytes(LONGEST), qos=qos, identifier=0x1234, properties=None)
    pong = packet(0xD0, b"")
    data = report(b"before", 1, five=False) + long + report(b"between", 2, five=False) + pong + long + long
    data += report(b"after", 3, five=False)
    line.feed(data[:cut])
    for start in range(cut, len(data), 5000):
        line.feed(data[start : start + 5000])
    for _ in range(3):
        line.feed(b"")  # what came together with messages that were passed over
    assert line.payloads == [b"before", b"between", b"after"]
    assert line.identifiers == [1, 2, 3]
    assert line.rest == pong
    line.stream.flush()
    line.stream.drop()
    assert line.broker.recv(100) == 3 * b"\x40\x02\x12\x34" * qos
    line.broker.close()


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"\x32" + length(1025) + b"\xff\xff", "not MQTT"), (b"\x34" + length(1025), "packet_bytes")],
    ids=["a topic beyond it", "QoS 2"],
)
def test_what_is_beyond_the_limit_and_cannot_be_acknowledged_ends_the_stream(data: bytes, said: str) -> None:
    ours, broker = socket.socketpair()
    filtered = ReportStream(ours, topic=TOPIC, status="/status", properties=False, longest_packet=1024)
    broker.sendall(data)
    with pytest.raises(StreamError, match=said):
        filtered.receive(1000)
    broker.close()
    filtered.drop()


def test_acknowledgements_go_out_together_and_between_packets_of_the_client() -> None:
    line = Line()
    line.stream.send(b"\xc0\x00")
    line.stream.acknowledge(np.array([1, 0, 0x1234], np.uint16))
    line.stream.send(b"\xc0\x00")
    assert line.stream.wants_write
    line.stream.flush()
    assert line.broker.recv(100) == b"\xc0\x00\x40\x02\x00\x01\x40\x02\x12\x34\xc0\x00"
    assert not line.stream.wants_write
    line.close()


def test_the_end_of_the_stream_is_the_clients_to_see() -> None:
    line = Line()
    line.broker.close()
    assert line.stream.receive(1000) is None
    assert line.stream.has_rest
    assert line.stream.recv(1) == b""


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    tls = make_certificates(tmp_path_factory.mktemp("tls"))
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(tls.certificate, tls.key)
    return ssl.create_default_context(cafile=str(tls.ca)), theirs


@pytest.fixture
def tls_line(contexts: tuple[ssl.SSLContext, ssl.SSLContext], five: bool) -> Iterator[Line]:
    ours, theirs = socket.socketpair()
    ends: list[socket.socket] = []
    shaking = threading.Thread(target=lambda: ends.append(contexts[1].wrap_socket(theirs, server_side=True)))
    shaking.start()
    secured = contexts[0].wrap_socket(ours, server_hostname="localhost")
    shaking.join()
    made = Line(five=five, ends=(secured, ends[0]))
    yield made
    made.close()


def test_records_of_one_packet_each_are_read_together(tls_line: Line, five: bool) -> None:
    """That is how mosquitto sends them; one by one they would take nine times as long."""
    for identifier in range(1, 51):
        tls_line.broker.sendall(report(b"sealed", identifier, five=five))
    tls_line.feed(packet(0xD0, b""))
    assert [len(messages) for messages in tls_line.batches] == [50]
    assert tls_line.identifiers == list(range(1, 51))
    assert tls_line.rest == packet(0xD0, b"")


def test_records_of_one_byte_each(tls_line: Line, five: bool) -> None:
    for byte in report(b"slow", 9, five=five) + packet(0xD0, b""):
        tls_line.feed(bytes([byte]))
    assert (tls_line.payloads, tls_line.rest) == ([b"slow"], packet(0xD0, b""))


def test_more_under_tls_than_there_is_room_for(tls_line: Line, five: bool) -> None:
    """Polling the socket does not show decrypted bytes that were not taken yet, so the stream reports them itself."""
    sent = 40
    tls_line.broker.sendall(b"".join(report(bytes(1000), n, five=five) for n in range(1, sent + 1)))
    taken: list[int] = []
    while len(taken) < sent:
        received = tls_line.stream.receive(3)
        assert received is not None
        taken += received[1].tolist()
        assert tls_line.stream.buffered or len(taken) == sent
    assert taken == list(range(1, sent + 1))


def test_a_line_cut_under_tls_is_the_end_of_the_stream(tls_line: Line) -> None:
    """Without a word of TLS, as when the broker is killed."""
    tls_line.broker.close()
    assert tls_line.stream.receive(1000) is None
    assert tls_line.stream.has_rest
    assert tls_line.stream.recv(1) == b""


def test_nothing_to_read_blocks_nobody() -> None:
    line = Line()
    assert line.stream.receive(1000) is None
    with pytest.raises(BlockingIOError):
        line.stream.recv(1)
    line.close()


@given(st.lists(st.tuples(st.text(max_size=20), st.binary(max_size=20), st.floats(0, 2e9)), max_size=8), st.data())
def test_mail_is_its_messages(rows: list[tuple[str, bytes, float]], data: st.DataObject) -> None:
    messages = [Message(*row) for row in rows]
    batch = MessageBatch.of(messages)
    cut = data.draw(st.integers(0, len(messages)))
    for part, expected in ((batch.part(0, cut), messages[:cut]), (batch.part(cut, len(messages)), messages[cut:])):
        assert [(part.topic(i), part.payload(i)) for i in range(len(part))] == [(m.topic, m.payload) for m in expected]
    again = MessageBatch.join([batch.part(0, cut), batch.part(cut, len(messages))])
    assert (again.payloads, again.topics) == (batch.payloads, batch.topics)
    assert np.array_equal(again.payload_ends, batch.payload_ends)
    assert np.array_equal(again.topic_ends, batch.topic_ends)
    assert np.array_equal(again.received, batch.received)
