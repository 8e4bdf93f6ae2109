#!/usr/bin/python3
"""The scenarios of the client tests, with Proton's reactor API."""

import hashlib
import random

from proton import Condition, Delivery, Link, Message, symbol
from proton.handlers import MessagingHandler
from proton.reactor import AtLeastOnce, AtMostOnce, Container, ReceiverOption

import report
from report import COUNT, LARGE


class SettlesSecond(ReceiverOption):
    """The receiver settles after the sender: exactly once."""

    def apply(self, receiver):
        receiver.rcv_settle_mode = Link.RCV_SECOND


class Scenario(MessagingHandler):
    """One conversation through the router, on two connections.

    A subclass starts it in begin() and calls done() when self.report is
    complete.
    """

    def __init__(self, url, address=None, **options):
        super().__init__(**{"auto_accept": False, **options})
        self.url, self.address = url, address
        self.report = {}

    def run(self):
        Container(self).run()
        return self.report

    def on_start(self, event):
        self.container = event.container
        self.limit = event.container.schedule(60, self)
        self.sending = event.container.connect(self.url, reconnect=False)
        self.receiving = event.container.connect(self.url, reconnect=False)
        self.begin()

    def done(self):
        self.limit.cancel()
        self.sending.close()
        self.receiving.close()

    def on_timer_task(self, event):
        raise Exception("not done within a minute; so far %s" % self.report)

    def on_transport_error(self, event):
        raise Exception("transport: %s" % event.transport.condition)

    def on_link_error(self, event):
        raise Exception("link: %s" % event.link.remote_condition)

    def on_connection_error(self, event):
        raise Exception("connection: %s" % event.connection.remote_condition)


class Exchange(Scenario):
    """Passes messages to a receiver that answers each, and says what became of them."""

    count = COUNT
    body = "hello"
    presettle = False        # settle at the sender, message by message
    sender_options = None
    receiver_options = None

    def begin(self):
        self.sent = 0
        self.report = {"received": 0, "presettled": 0, "outcomes": report.outcomes()}
        self.receiver = self.container.create_receiver(self.receiving, self.address, options=self.receiver_options)

    def on_link_opened(self, event):
        if event.receiver == self.receiver:
            self.sender = self.container.create_sender(self.sending, self.address, options=self.sender_options)

    def on_sendable(self, event):
        while event.sender.credit and self.sent < self.count:
            delivery = event.sender.send(Message(id=self.sent, body=self.body))
            if self.presettle:
                delivery.settle()
            self.sent += 1

    def on_message(self, event):
        self.report["received"] += 1
        self.report["presettled"] += event.delivery.settled
        self.look(event.message)
        self.answer(event.delivery)
        self.check()

    def on_settled(self, event):
        if event.link.is_sender:
            self.report["outcomes"][report.outcome(event.delivery.remote_state)] += 1
            report.note(self.report, event.delivery.remote)
            self.check()

    def look(self, message):
        pass

    def answer(self, delivery):
        if not delivery.settled:
            self.accept(delivery)

    def decided(self):
        """How many messages have an outcome, as far as one is due."""
        return self.report["received"] if self.presettle else sum(self.report["outcomes"].values())

    def check(self):
        if self.report["received"] == self.count and self.decided() == self.count:
            self.done()


class Presettled(Exchange):
    presettle = True


class AtMostOnceSender(Exchange):
    """The sender attaches for settled deliveries only, and Proton settles them."""
    sender_options = AtMostOnce()

    def decided(self):
        return self.report["received"]


class SettledForReceiver(Exchange):
    """The receiver wants settled deliveries, whatever the sender does."""
    receiver_options = AtMostOnce()


class Rejected(Exchange):
    def answer(self, delivery):
        delivery.local.condition = Condition("test:refused", "not today")
        self.reject(delivery)


class Released(Exchange):
    def answer(self, delivery):
        self.release(delivery, delivered=False)


class Modified(Exchange):
    def answer(self, delivery):
        delivery.local.failed = True
        delivery.local.undeliverable = True
        delivery.local.annotations = {symbol("why"): "later"}
        self.settle(delivery, Delivery.MODIFIED)


class AtLeastOnceDelivery(Scenario):
    """The first receiver goes away with the message; the sender sends it again."""

    def begin(self):
        self.report = {"received": 0, "outcomes": report.outcomes()}
        self.sender = None
        self.receiver = self.attach()

    def attach(self):
        return self.container.create_receiver(self.receiving, self.address, options=AtLeastOnce())

    def on_link_opened(self, event):
        if event.receiver and not self.sender:
            self.sender = self.container.create_sender(self.sending, self.address, options=AtLeastOnce())
        elif event.receiver:
            self.sender.send(Message(body="again"))

    def on_sendable(self, event):
        if not self.report["received"] and not self.report["outcomes"] and not self.sender.unsettled:
            self.sender.send(Message(body="once"))

    def on_message(self, event):
        self.report["received"] += 1
        if self.report["received"] == 1:
            event.receiver.close()
        else:
            self.accept(event.delivery)

    def on_settled(self, event):
        if event.link.is_sender:
            self.report["outcomes"][report.outcome(event.delivery.remote_state)] += 1
            if event.delivery.remote_state == Delivery.ACCEPTED:
                self.done()
            else:
                self.receiver = self.attach()


class ExactlyOnce(Exchange):
    """The receiver accepts, the sender settles, and only then does the receiver."""
    receiver_options = SettlesSecond()

    def __init__(self, url, address):
        super().__init__(url, address, auto_settle=False)

    def begin(self):
        super().begin()
        self.report = {"received": 0, "accepted_unsettled": 0, "settled_by_sender": 0}

    def on_message(self, event):
        self.report["received"] += 1
        event.delivery.update(Delivery.ACCEPTED)

    def on_accepted(self, event):
        self.report["accepted_unsettled"] += not event.delivery.settled
        event.delivery.settle()

    def on_settled(self, event):
        if event.link.is_receiver:
            event.delivery.settle()
            self.report["settled_by_sender"] += 1
            if self.report["settled_by_sender"] == self.count:
                self.done()


class Large(Exchange):
    count = 1

    def begin(self):
        self.body = random.randbytes(LARGE)
        super().begin()

    def look(self, message):
        self.report["bytes"] = len(message.body)
        self.report["intact"] = hashlib.sha256(message.body).digest() == hashlib.sha256(self.body).digest()


class Drain(Scenario):
    """The receiver takes back the credit that is left over, then goes on."""

    def __init__(self, url, address):
        super().__init__(url, address, prefetch=0)

    def begin(self):
        self.report = {"received": 0, "received_later": 0}
        self.to_send = 3
        self.receiver = self.container.create_receiver(self.receiving, self.address)

    def on_link_opened(self, event):
        if event.receiver:
            event.receiver.flow(10)
            self.sender = self.container.create_sender(self.sending, self.address)

    def on_sendable(self, event):
        while self.to_send and self.sender.credit:
            self.to_send -= 1
            self.sender.send(Message(body="hello"))

    def on_message(self, event):
        self.accept(event.delivery)
        if "drained" in self.report:
            self.report["received_later"] += 1
            self.done()
            return
        self.report["received"] += 1
        if self.report["received"] == 3:
            self.receiver.drain(0)

    def on_link_flow(self, event):
        if event.receiver and "drained" not in self.report:
            drained = event.receiver.drained()
            if drained:
                self.report["drained"] = drained
                self.report["credit_after_drain"] = event.receiver.credit
                event.receiver.drain_mode = False
                event.receiver.flow(1)
                self.to_send = 1
                self.on_sendable(event)


class RequestResponse(Scenario):
    """A service answers to the dynamic address of whoever asks."""

    requests = ["one", "two", "three"]

    def begin(self):
        self.report = {"replies": []}
        self.service = self.container.create_receiver(self.receiving, self.address)
        self.answers = self.container.create_sender(self.receiving, None)
        self.replies = None

    def on_link_opened(self, event):
        if event.receiver == self.service:
            self.replies = self.container.create_receiver(self.sending, None, dynamic=True)
        elif event.receiver and event.receiver == self.replies:
            self.reply_to = event.receiver.remote_source.address
            self.report["reply_to"] = report.without_chance(self.reply_to)
            self.sender = self.container.create_sender(self.sending, self.address)

    def on_sendable(self, event):
        if event.sender != self.answers and not self.report["replies"] and not self.sender.unsettled:
            self.ask()

    def ask(self):
        n = len(self.report["replies"])
        self.sender.send(Message(reply_to=self.reply_to, correlation_id=n, body=self.requests[n]))

    def on_message(self, event):
        self.accept(event.delivery)
        message = event.message
        if event.receiver == self.service:
            self.answers.send(Message(address=message.reply_to, correlation_id=message.correlation_id,
                                      body=message.body.upper()))
            return
        assert message.correlation_id == len(self.report["replies"]), message
        self.report["replies"].append(message.body)
        if len(self.report["replies"]) == len(self.requests):
            self.done()
        else:
            self.ask()


class Credit(Scenario):
    """What a sender sees as consumers come and go (RT E44-E47)."""

    def begin(self):
        self.receiver = None
        self.sender = self.container.create_sender(self.sending, self.address)

    def consume(self):
        self.receiver = self.container.create_receiver(self.receiving, self.address)

    def on_link_opened(self, event):
        if event.link == self.sender:
            self.probe()

    def probe(self):
        # An anonymous sender has credit at once (E32). It is attached after
        # the other one, on the same connection: once its credit is here, the
        # router knows all that went before, and has answered it.
        self.container.create_sender(self.sending, None)

    def on_link_flow(self, event):
        if event.sender and event.sender != self.sender:
            if not self.receiver:
                self.report["without_consumer"] = self.sender.credit
            event.sender.close()
            self.consume()
        elif event.link == self.sender and self.sender.drain_mode:
            self.report["drained"] = self.sender.drained()
            self.report["credit_after_drain"] = self.sender.credit
            self.probe()
        elif event.link == self.sender and "drained" in self.report:
            self.report["with_consumer_again"] = self.sender.credit
            self.check()
        elif event.link == self.sender and "with_consumer" not in self.report:
            self.report["with_consumer"] = self.sender.credit
            self.receiver.close()

    def on_link_closed(self, event):
        if event.receiver:
            self.report["consumer_left"] = self.sender.credit
            self.sender.send(Message(body="nobody home"))

    def on_settled(self, event):
        self.report["outcome_without_consumer"] = report.outcome(event.delivery.remote_state)
        self.check()

    def check(self):
        if "with_consumer_again" in self.report and "outcome_without_consumer" in self.report:
            self.done()


class Ring(MessagingHandler):
    """Many clients, each sending to the next and receiving from the one before."""

    def __init__(self, url, address, clients):
        super().__init__()
        self.url, self.address, self.clients = url, address, int(clients)
        self.report = {"clients": self.clients, "received": 0, "outcomes": report.outcomes()}

    def run(self):
        Container(self).run()
        return self.report

    def on_start(self, event):
        self.limit = event.container.schedule(120, self)
        self.opened = 0
        self.connections = [event.container.connect(self.url, reconnect=False) for _ in range(self.clients)]
        for i, connection in enumerate(self.connections):
            event.container.create_receiver(connection, "%s.%d" % (self.address, i))

    def on_link_opened(self, event):
        if event.receiver:
            self.opened += 1
            if self.opened == self.clients:
                for i, connection in enumerate(self.connections):
                    sender = event.container.create_sender(connection, "%s.%d" % (self.address, (i + 1) % self.clients))
                    sender.left = COUNT

    def on_sendable(self, event):
        while event.sender.left and event.sender.credit:
            event.sender.left -= 1
            event.sender.send(Message(body="hello"))

    def on_message(self, event):
        self.report["received"] += 1

    def on_settled(self, event):
        if event.link.is_sender:
            self.report["outcomes"][report.outcome(event.delivery.remote_state)] += 1
            if sum(self.report["outcomes"].values()) == self.clients * COUNT:
                self.limit.cancel()
                for connection in self.connections:
                    connection.close()

    def on_timer_task(self, event):
        raise Exception("not done within two minutes; so far %s" % self.report)

    def on_transport_error(self, event):
        raise Exception("transport: %s" % event.transport.condition)


def runs(scenario):
    return lambda *args: scenario(*args).run()


report.main({name: runs(scenario) for name, scenario in {
    "unsettled": Exchange,
    "presettled": Presettled,
    "rejected": Rejected,
    "released": Released,
    "modified": Modified,
    "at-most-once": AtMostOnceSender,
    "settled-for-receiver": SettledForReceiver,
    "at-least-once": AtLeastOnceDelivery,
    "exactly-once": ExactlyOnce,
    "large": Large,
    "drain": Drain,
    "request-response": RequestResponse,
    "credit": Credit,
    "ring": Ring,
}.items()})
