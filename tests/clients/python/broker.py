#!/usr/bin/python3
"""What clients ask of a broker, maybe behind routers, with Proton."""

from proton import Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container, DynamicNodeProperties, Selector

import report


def decoded(data):
    """The value in Proton's data."""
    data.rewind()
    data.next()
    return data.get_object()


class Client(MessagingHandler):
    """Connects, and ends when there is a report."""

    def __init__(self, url, address, **options):
        super().__init__(**options)
        self.url, self.address = url, address
        self.report = {}

    def on_start(self, event):
        self.container = event.container
        self.connection = event.container.connect(self.url, reconnect=False)
        self.begin(event)

    def on_transport_error(self, event):
        raise SystemExit(f"transport: {event.transport.condition}")

    def on_link_error(self, event):
        raise SystemExit(f"link {event.link.name}: {event.link.remote_condition}")

    def end(self):
        self.connection.close()


class Selected(Client):
    """Six messages of two colours; a receiver that wants one of them."""

    def begin(self, event):
        self.sender = event.container.create_sender(self.connection, self.address)
        self.unsent, self.accepted, self.got = list(range(6)), 0, []

    def on_sendable(self, event):
        while self.unsent and event.sender.credit:
            n = self.unsent.pop(0)
            event.sender.send(Message(id=n, body=n, properties={"colour": ["red", "blue"][n % 2]}))

    def on_accepted(self, event):
        self.accepted += 1
        if self.accepted == 6:
            self.receiver = self.container.create_receiver(
                self.connection, self.address, options=Selector("colour = 'blue'"))

    def on_link_opened(self, event):
        if event.link.is_receiver:
            self.report["filters"] = {str(k): v.value for k, v in decoded(event.link.remote_source.filter).items()}

    def on_message(self, event):
        self.got.append(event.message.body)
        if len(self.got) == 3:
            self.report["received"] = self.got
            self.end()


class Drained(Client):
    """A receiver with ten credits drains a queue of three."""

    def __init__(self, url, address):
        super().__init__(url, address, prefetch=0)

    def begin(self, event):
        self.sender = event.container.create_sender(self.connection, self.address)
        self.unsent, self.accepted, self.got = 3, 0, 0

    def on_sendable(self, event):
        while self.unsent and event.sender.credit:
            event.sender.send(Message(body="x"))
            self.unsent -= 1

    def on_accepted(self, event):
        self.accepted += 1
        if self.accepted == 3:
            self.receiver = self.container.create_receiver(self.connection, self.address)

    def on_link_opened(self, event):
        if event.receiver:  # before, Proton's flow tells a delivery-count that it cannot know
            event.receiver.drain(10)

    def on_message(self, event):
        self.got += 1

    def on_link_flow(self, event):
        if event.receiver and self.got == 3 and "drained" not in self.report:
            drained = event.receiver.drained()
            if drained:
                self.report = {"received": self.got, "drained": drained, "credit": event.receiver.credit}
                self.end()


class Transacted(Client, TransactionHandler):
    """Transactions of two messages: the first is aborted, the next committed;
    then both are received in one that is aborted and in one that is committed.
    """

    def __init__(self, url, address):
        super().__init__(url, address, prefetch=0, auto_accept=False)
        self.log = []
        self.transaction = None

    def begin(self, event):
        self.sender = event.container.create_sender(self.connection, self.address)
        self.receiver = None
        self.declare()

    def declare(self):
        self.transaction = None
        self.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event):
        self.transaction = event.transaction
        if self.receiver is None:
            for text in ("a", "b"):
                self.transaction.send(self.sender, Message(body=text))
            self.sent = 0
        else:
            self.count = 0
            self.receiver.flow(2)

    def on_settled(self, event):  # a posting within the transaction; its state is no mere accepted
        if event.link != self.sender:
            return
        self.sent += 1
        if self.sent < 2:
            return
        if "aborted" in self.log:
            self.transaction.commit()
        else:
            self.transaction.abort()

    def on_message(self, event):
        self.log.append(event.message.body)
        self.transaction.accept(event.delivery)
        self.count += 1
        if self.count == 2:
            if self.log.count("aborted") == 1:
                self.transaction.abort()
            else:
                self.transaction.commit()

    def on_transaction_aborted(self, event):
        self.log.append("aborted")
        self.declare()

    def on_transaction_committed(self, event):
        self.log.append("committed")
        if self.receiver is None:
            self.receiver = self.container.create_receiver(self.connection, self.address)
            self.declare()
        else:
            self.report["log"] = self.log
            self.end()

    def on_transaction_declare_failed(self, event):
        raise SystemExit("declare failed")

    def on_transaction_commit_failed(self, event):
        raise SystemExit("commit failed")


class Dynamic(Client):
    """A dynamic node with properties, which the answer repeats."""

    def begin(self, event):
        event.container.create_receiver(
            self.connection, dynamic=True, options=DynamicNodeProperties({"x-opt-qd.address": self.address}))

    def on_link_opened(self, event):
        source = event.link.remote_source
        self.report = {"dynamic": source.dynamic, "named": bool(source.address),
                       "properties": {str(k): str(v) for k, v in decoded(source.properties).items()}}
        self.end()


def scenario(client):
    def run(url, address):
        handler = client(url, address)
        Container(handler).run()
        return handler.report
    return run


if __name__ == "__main__":
    report.main({"selector": scenario(Selected), "drain": scenario(Drained),
                 "transactions": scenario(Transacted), "dynamic": scenario(Dynamic)})
