#!/usr/bin/python3
"""The scenarios of the client tests, with Proton's blocking API.

A call of it waits until what it asked for has happened, so the receiving end
of a scenario runs in a thread of its own.
"""

import concurrent.futures
import contextlib
import hashlib
import random
import threading

from proton import Condition, Delivery, Link, Message, symbol
from proton.reactor import AtLeastOnce, AtMostOnce, ReceiverOption
from proton.utils import BlockingConnection, SyncRequestResponse

import report
from report import COUNT, LARGE

LIMIT = 60  # seconds any call may wait


@contextlib.contextmanager
def connect(url):
    connection = BlockingConnection(url, timeout=LIMIT)
    try:
        yield connection
    finally:
        connection.close()


@contextlib.contextmanager
def beside(work, *args):
    """Runs work(ready, *args) in a thread; the body starts when it calls ready()."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        started = threading.Event()
        future = pool.submit(work, started.set, *args)
        future.add_done_callback(lambda _: started.set())
        started.wait()
        yield future
        future.result()


class SettlesSecond(ReceiverOption):
    """The receiver settles after the sender: exactly once."""

    def apply(self, receiver):
        receiver.rcv_settle_mode = Link.RCV_SECOND


def accept(receiver):
    receiver.accept()


def reject(receiver):
    receiver.fetcher.unsettled[0].local.condition = Condition("test:refused", "not today")
    receiver.reject()


def release(receiver):
    receiver.release(delivered=False)


def modify(receiver):
    local = receiver.fetcher.unsettled[0].local
    local.failed = True
    local.undeliverable = True
    local.annotations = {symbol("why"): "later"}
    receiver.settle(Delivery.MODIFIED)


def receive(ready, url, address, count, answer, options):
    """Receives count messages and answers each; returns the messages and how many were settled."""
    with connect(url) as connection:
        receiver = connection.create_receiver(address, credit=count, options=options)
        ready()
        messages, presettled = [], 0
        for _ in range(count):
            messages.append(receiver.receive())
            if receiver.fetcher.unsettled:
                answer(receiver)
            else:
                presettled += 1
        return messages, presettled


def exchange(url, address, answer=accept, body="hello", count=COUNT, presettle=False,
             sender_options=None, receiver_options=None, look=lambda result, message: None):
    with beside(receive, url, address, count, answer, receiver_options) as receiving, connect(url) as connection:
        sender = connection.create_sender(address, options=sender_options)
        result = {"outcomes": report.outcomes()}
        for n in range(count):
            message = Message(id=n, body=body)
            if presettle:
                connection.wait(lambda: sender.link.credit)
                sender.link.send(message).settle()
            else:
                delivery = sender.send(message, error_states=[])
                if sender.link.snd_settle_mode != Link.SND_SETTLED:
                    result["outcomes"][report.outcome(delivery.remote_state)] += 1
                    report.note(result, delivery.remote)
    messages, result["presettled"] = receiving.result()
    result["received"] = len(messages)
    look(result, messages[0])
    return result


def large(url, address):
    body = random.randbytes(LARGE)

    def look(result, message):
        result["bytes"] = len(message.body)
        result["intact"] = hashlib.sha256(message.body).digest() == hashlib.sha256(body).digest()

    return exchange(url, address, body=body, count=1, look=look)


def at_least_once(url, address):
    """The first receiver goes away with the message; the sender sends it again."""
    def consume(ready):
        with connect(url) as connection:
            first = connection.create_receiver(address, credit=1, options=AtLeastOnce())
            ready()
            first.receive()
            first.close()
            second = connection.create_receiver(address, credit=1, options=AtLeastOnce())
            second.receive()
            second.accept()

    result = {"received": 2, "outcomes": report.outcomes()}
    with beside(consume), connect(url) as connection:
        sender = connection.create_sender(address, options=AtLeastOnce())
        for body in "once", "again":
            # While no receiver is there the message comes back as released (RT
            # E47): that is a message not yet delivered, and goes out once more.
            state = Delivery.RELEASED
            while state == Delivery.RELEASED:
                state = sender.send(Message(body=body), error_states=[]).remote_state
            result["outcomes"][report.outcome(state)] += 1
    return result


def exactly_once(url, address):
    """The receiver accepts, the sender settles, and only then does the receiver."""
    def consume(ready):
        with connect(url) as connection:
            receiver = connection.create_receiver(address, credit=COUNT, options=SettlesSecond())
            ready()
            settled = 0
            for _ in range(COUNT):
                receiver.receive()
                delivery = receiver.fetcher.unsettled.popleft()
                delivery.update(Delivery.ACCEPTED)
                connection.wait(lambda: delivery.settled)
                delivery.settle()
                settled += 1
            return settled

    accepted_unsettled = 0
    with beside(consume) as consuming, connect(url) as connection:
        sender = connection.create_sender(address)
        for _ in range(COUNT):
            connection.wait(lambda: sender.link.credit)
            delivery = sender.link.send(Message(body="hello"))
            connection.wait(lambda: delivery.remote_state == Delivery.ACCEPTED)
            accepted_unsettled += not delivery.settled
            delivery.settle()
    settled = consuming.result()
    return {"received": settled, "accepted_unsettled": accepted_unsettled, "settled_by_sender": settled}


def drain(url, address):
    """The receiver takes back the credit that is left over, then goes on."""
    result = {}
    with concurrent.futures.ThreadPoolExecutor(1) as pool, connect(url) as sending:
        with connect(url) as receiving:
            receiver = receiving.create_receiver(address, credit=0)  # no credit of the API's own
            receiver.link.flow(10)
            sender = sending.create_sender(address)
            sent = pool.submit(lambda: [sender.send(Message(body="hello")) for _ in range(3)])
            for _ in range(3):
                receiver.receive()
                receiver.accept()
            receiver.link.drain(0)
            receiving.wait(lambda: not receiver.link.credit)
            result["received"] = len(sent.result())
            result["drained"] = receiver.link.drained()
            result["credit_after_drain"] = receiver.link.credit
            receiver.link.drain_mode = False
            receiver.link.flow(1)
            sent = pool.submit(sender.send, Message(body="hello"))
            receiver.receive()
            receiver.accept()
            result["received_later"] = 1
        sent.result()
    return result


def request_response(url, address):
    """A service answers to the dynamic address of whoever asks."""
    requests = ["one", "two", "three"]

    def serve(ready):
        with connect(url) as connection:
            # With a credit of 1 the API grants 2, takes both back, and grants one
            # for each call of receive(): credit that shrinks must count (RT E53).
            receiver = connection.create_receiver(address, credit=1)
            answers = connection.create_sender(None)
            ready()
            for _ in requests:
                request = receiver.receive()
                receiver.accept()
                answers.send(Message(address=request.reply_to, correlation_id=request.correlation_id,
                                     body=request.body.upper()))

    with beside(serve), connect(url) as connection:
        caller = SyncRequestResponse(connection, address)
        replies = [caller.call(Message(body=body)).body for body in requests]
        return {"replies": replies, "reply_to": report.without_chance(caller.reply_to)}


def credit(url, address):
    """What a sender sees as consumers come and go (RT E44-E47).

    The blocking API has no call that answers a drain, so this ends where the
    router asks for one.
    """
    result = {}
    with connect(url) as sending, connect(url) as receiving:
        sender = sending.create_sender(address)
        # An anonymous sender has credit at once (E32). It is attached after
        # the other one, on the same connection: once its credit is here, the
        # other's would be here as well.
        probe = sending.create_sender(None)
        sending.wait(lambda: probe.link.credit)
        result["without_consumer"] = sender.link.credit

        receiver = receiving.create_receiver(address, credit=10)
        sending.wait(lambda: sender.link.credit)
        result["with_consumer"] = sender.link.credit

        receiver.close()
        result["consumer_left"] = sender.link.credit
        delivery = sender.send(Message(body="nobody home"), error_states=[])
        result["outcome_without_consumer"] = report.outcome(delivery.remote_state)
        sending.wait(lambda: sender.link.drain_mode)
        result["drain_wanted_of"] = sender.link.credit
    return result


def ring(url, address, clients):
    """Many clients, each sending to the next and receiving from the one before."""
    clients = int(clients)
    attached = threading.Barrier(clients)

    def client(i):
        with connect(url) as connection:
            receiver = connection.create_receiver("%s.%d" % (address, i), credit=COUNT)
            attached.wait(LIMIT)
            sender = connection.create_sender("%s.%d" % (address, (i + 1) % clients))
            connection.wait(lambda: sender.link.credit)
            sent = [sender.link.send(Message(body="hello")) for _ in range(COUNT)]
            for _ in range(COUNT):
                receiver.receive()
                receiver.accept()
            connection.wait(lambda: all(delivery.settled for delivery in sent))
            return [report.outcome(delivery.remote_state) for delivery in sent]

    result = {"clients": clients, "received": 0, "outcomes": report.outcomes()}
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        for outcomes in pool.map(client, range(clients)):
            result["received"] += COUNT
            result["outcomes"].update(outcomes)
    return result


report.main({
    "unsettled": exchange,
    "presettled": lambda *args: exchange(*args, presettle=True),
    "rejected": lambda *args: exchange(*args, answer=reject),
    "released": lambda *args: exchange(*args, answer=release),
    "modified": lambda *args: exchange(*args, answer=modify),
    "at-most-once": lambda *args: exchange(*args, sender_options=AtMostOnce()),
    "settled-for-receiver": lambda *args: exchange(*args, receiver_options=AtMostOnce()),
    "at-least-once": at_least_once,
    "exactly-once": exactly_once,
    "large": large,
    "drain": drain,
    "request-response": request_response,
    "credit": credit,
    "ring": ring,
})
