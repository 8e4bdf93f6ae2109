#!/usr/bin/python3
"""Sends messages to an address: sender.py [URL [COUNT]]

    sender.py amqp://127.0.0.1:5672/hello 3

Needs Debian's package python3-qpid-proton.
"""

import sys

from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import Container


class Sender(MessagingHandler):
    def __init__(self, url, count):
        super().__init__()
        self.url = url
        self.count = count
        self.sent = 0
        self.decided = 0

    def on_start(self, event):
        event.container.create_sender(self.url)

    def on_sendable(self, event):
        # The router grants credit once somebody receives from the address.
        while event.sender.credit and self.sent < self.count:
            self.sent += 1
            event.sender.send(Message(body="message %d" % self.sent))

    def on_settled(self, event):
        print("message", event.delivery.tag, "was", str(event.delivery.remote_state).lower())
        self.decided += 1
        if self.decided == self.count:
            event.connection.close()


url, count = (sys.argv[1:] + ["amqp://127.0.0.1:5672/hello", "1"][len(sys.argv) - 1:])[:2]
try:
    Container(Sender(url, int(count))).run()
except KeyboardInterrupt:
    pass
