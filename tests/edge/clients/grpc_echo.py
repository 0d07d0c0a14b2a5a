"""gRPC through a gateway, client and server of the `grpcio` library, with messages of plain bytes.

    grpc_echo.py serve [CERTIFICATE KEY]     prints its port; ends with its standard input
    grpc_echo.py ask PORT [CA]               makes calls of all four kinds, good ones and bad
    grpc_echo.py refused PORT CODE           makes a call that the gateway answers, and says with which code
    grpc_echo.py silent PORT lives|ends      keeps calls open until it is told to go on, and says what became of them
    grpc_echo.py subscribe PORT [CA]         reads nothing of six streams of events until it is told to end
    grpc_echo.py beside PORT [CA]            makes calls until it is told to end; none may fail
"""

import concurrent.futures
import os
import sys
import threading

import grpc

LARGE = os.urandom(3 << 20)
AT_ONCE = 200
PATIENCE = 20
cancelled = threading.Event()
awake = threading.Event()


def unary(message, context):
    metadata = dict(context.invocation_metadata())
    context.send_initial_metadata([("x-initial", metadata.get("x-asked", "")), ("x-bytes-bin", b"\0\xff")])
    context.set_trailing_metadata([("x-trailing", "last"), ("x-more-bin", b"\x01\xfe")])
    return message


def many(message, context):
    for number in range(int(message)):
        yield str(number).encode()


def joined(messages, context):
    return b"".join(messages)


def each(messages, context):
    yield from messages


def fail(message, context):
    context.set_trailing_metadata([("x-trailing", "last")])
    context.abort(grpc.StatusCode.NOT_FOUND, "not here: 100 % é\n")


def fail_late(message, context):
    yield b"first"
    context.abort(grpc.StatusCode.DATA_LOSS, "later")


def sleep(message, context):
    cancelled.clear()
    context.add_callback(cancelled.set)
    # What the client does not wait for is cancelled here.
    cancelled.wait(PATIENCE)
    return b""


def was_cancelled(message, context):
    return b"yes" if cancelled.wait(PATIENCE) else b"no"


def later(message, context):
    awake.clear()
    yield b"before"
    awake.wait(PATIENCE)
    yield b"behind"


def wake(message, context):
    awake.set()
    return b""


KINDS = {
    "Unary": grpc.unary_unary_rpc_method_handler(unary),
    "Many": grpc.unary_stream_rpc_method_handler(many),
    "Joined": grpc.stream_unary_rpc_method_handler(joined),
    "Each": grpc.stream_stream_rpc_method_handler(each),
    "Fail": grpc.unary_unary_rpc_method_handler(fail),
    "FailLate": grpc.unary_stream_rpc_method_handler(fail_late),
    "Sleep": grpc.unary_unary_rpc_method_handler(sleep),
    "Later": grpc.unary_stream_rpc_method_handler(later),
    "Wake": grpc.unary_unary_rpc_method_handler(wake),
    "WasCancelled": grpc.unary_unary_rpc_method_handler(was_cancelled),
}


def serve(certificate=None, key=None):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(AT_ONCE))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test.Echo", KINDS)])
    if certificate:
        pair = tuple(open(file, "rb").read() for file in (key, certificate))
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    sys.stdin.read()
    server.stop(None)


def channel(port, ca=None):
    if ca:
        return grpc.secure_channel(f"localhost:{port}", grpc.ssl_channel_credentials(open(ca, "rb").read()))
    return grpc.insecure_channel(f"localhost:{port}")


def code_of(call):
    try:
        call()
    except grpc.RpcError as error:
        return error.code(), error.details()
    return grpc.StatusCode.OK, None


class Messages:
    """What a client sends, one at a time, when it is told to."""

    def __init__(self):
        self.ready, self.next = threading.Semaphore(0), []

    def send(self, message):
        self.next.append(message)
        self.ready.release()

    def __iter__(self):
        return self

    def __next__(self):
        self.ready.acquire()
        message = self.next.pop(0)
        if message is None:
            raise StopIteration
        return message


def ask(port, ca=None):
    connection = channel(port, ca)
    call = connection.unary_unary("/test.Echo/Unary")
    for message in [b"", b"x", LARGE]:
        answer, told = call.with_call(message, metadata=[("x-asked", "this"), ("x-asked-bin", b"\0")], timeout=PATIENCE)
        assert answer == message
        assert dict(told.initial_metadata()).get("x-initial") == "this", told.initial_metadata()
        assert dict(told.initial_metadata()).get("x-bytes-bin") == b"\0\xff", told.initial_metadata()
        assert dict(told.trailing_metadata()).get("x-trailing") == "last", told.trailing_metadata()
        assert dict(told.trailing_metadata()).get("x-more-bin") == b"\x01\xfe", told.trailing_metadata()
    numbers = list(connection.unary_stream("/test.Echo/Many")(b"1000", timeout=PATIENCE))
    assert numbers == [str(number).encode() for number in range(1000)], len(numbers)
    assert not list(connection.unary_stream("/test.Echo/Many")(b"0", timeout=PATIENCE))
    whole = connection.stream_unary("/test.Echo/Joined")((str(number).encode() for number in range(1000)), timeout=PATIENCE)
    assert whole == b"".join(str(number).encode() for number in range(1000))
    # Each message is answered before the next one is sent: nothing on the way may wait for more.
    messages = Messages()
    answers = connection.stream_stream("/test.Echo/Each")(messages, timeout=PATIENCE)
    for number in range(100):
        messages.send(b"%d" % number)
        assert next(answers) == b"%d" % number
    messages.send(None)
    assert not list(answers)
    assert code_of(lambda: connection.unary_unary("/test.Echo/Fail")(b"", timeout=PATIENCE)) == (
        grpc.StatusCode.NOT_FOUND, "not here: 100 % é\n",
    )
    received = []
    late = connection.unary_stream("/test.Echo/FailLate")(b"", timeout=PATIENCE)
    assert code_of(lambda: received.extend(late)) == (grpc.StatusCode.DATA_LOSS, "later")
    assert code_of(lambda: connection.unary_unary("/test.Echo/None")(b"", timeout=PATIENCE))[0] == grpc.StatusCode.UNIMPLEMENTED
    sleeping = connection.unary_unary("/test.Echo/Sleep")
    assert code_of(lambda: sleeping(b"", timeout=0.3))[0] == grpc.StatusCode.DEADLINE_EXCEEDED
    assert connection.unary_unary("/test.Echo/WasCancelled")(b"", timeout=2 * PATIENCE) == b"yes"
    calls = [call.future(b"%d" % number, timeout=PATIENCE) for number in range(AT_ONCE)]
    assert [call.result() for call in calls] == [b"%d" % number for number in range(AT_ONCE)]


def refused(port, code):
    call = channel(port).unary_unary("/test.Echo/Unary")
    seen, _ = code_of(lambda: call(b"", timeout=PATIENCE))
    assert seen == grpc.StatusCode[code], seen


def silent(port, outcome):
    connection, messages = channel(port), Messages()
    # In one, both sides may speak; in the other, the server alone.
    both = connection.stream_stream("/test.Echo/Each")(messages)
    messages.send(b"before")
    alone = connection.unary_stream("/test.Echo/Later")(b"")
    assert next(both) == next(alone) == b"before"
    print("silent", flush=True)
    sys.stdin.readline()
    if outcome == "ends":
        assert code_of(lambda: next(alone))[0] != grpc.StatusCode.OK
        return
    messages.send(b"behind")
    connection.unary_unary("/test.Echo/Wake")(b"")
    assert next(both) == next(alone) == b"behind"
    messages.send(None)
    assert not list(both) and not list(alone)


def subscribe(port, ca=None):
    connection = channel(port, ca)
    events = [connection.unary_stream("/test.Echo/Many")(b"1000000") for _ in range(6)]
    assert [next(each) for each in events] == [b"0"] * len(events)
    print("subscribed", flush=True)
    sys.stdin.readline()


def beside(port, ca=None):
    connection, messages = channel(port, ca), Messages()
    # One call lives through it all, and others come and go.
    answers = connection.stream_stream("/test.Echo/Each")(messages, timeout=10 * PATIENCE)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), ended.set()), daemon=True).start()
    number = 0
    while number < 200 or not ended.is_set():
        number += 1
        messages.send(b"%d" % number)
        assert next(answers) == b"%d" % number
        assert connection.unary_unary("/test.Echo/Unary")(b"x", timeout=PATIENCE) == b"x"
        if number == 1:
            print("begun", flush=True)
    messages.send(None)
    assert not list(answers)


globals()[sys.argv[1]](*sys.argv[2:])
