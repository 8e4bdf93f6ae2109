#!/usr/bin/python3
"""Prints the messages of an address: receiver.py [URL [COUNT]]

    receiver.py amqp://127.0.0.1:5672/hello 3

Without COUNT it goes on until it is stopped. Needs Debian's package
python3-qpid-proton.
"""

import sys

from proton.handlers import MessagingHandler
from proton.reactor import Container


class Receiver(MessagingHandler):
    def __init__(self, url, count):
        super().__init__()
        self.url = url
        self.left = count

    def on_start(self, event):
        event.container.create_receiver(self.url)

    def on_message(self, event):
        # The message is accepted when this returns.
        print(event.message.body)
        self.left -= 1
        if self.left == 0:
            event.receiver.close()
            event.connection.close()

    def on_link_error(self, event):
        print("refused:", event.link.remote_condition.description, file=sys.stderr)
        event.connection.close()


url, count = (sys.argv[1:] + ["amqp://127.0.0.1:5672/hello", "0"][len(sys.argv) - 1:])[:2]
try:
    Container(Receiver(url, int(count))).run()
except KeyboardInterrupt:
    pass
