"""Between a client and an S3 store: passes requests on, and breaks those that its folder's file `breaks` names."""
import http.client
import http.server
import os
import re
import socket
import sys
import threading
import time

folder, to = sys.argv[1], sys.argv[2]
guard = threading.Lock()
left = {}


def due(line):
    """What is to be done to this request: of the first rule that matches and is not used up."""
    with guard:
        try:
            rules = open(os.path.join(folder, "breaks"), encoding="utf-8").read().splitlines()
        except FileNotFoundError:
            return ""
        for number, rule in enumerate(rules):
            times, match, does = rule.split("\t")
            key = (number, rule)
            if left.setdefault(key, int(times)) > 0 and re.search(match, line):
                left[key] -= 1
                with open(os.path.join(folder, "broken"), "a", encoding="utf-8") as out:
                    out.write(line + "\n")
                return does
    return ""


class Proxy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def cut(self):
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def answer(self, status, head, body):
        self.send_response_only(status)
        for name, value in head:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        does = due(f"{self.command} {self.path}").split()
        word = does[0] if does else ""
        if word == "drop":
            return self.cut()
        if word == "stall":
            time.sleep(60)
            return self.cut()
        if word == "status":
            text = f"<Error><Code>{does[2]}</Code><Message>told to by a test</Message></Error>".encode()
            return self.answer(int(does[1]), [("Content-Length", str(len(text)))], text)
        if word == "region":
            text = b"<Error><Code>PermanentRedirect</Code></Error>"
            return self.answer(301, [("x-amz-bucket-region", does[1]), ("Content-Length", str(len(text)))], text)
        there = http.client.HTTPConnection(to)
        there.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("connection", "expect"):
                there.putheader(name, value)
        there.endheaders(body or None)
        got = there.getresponse()
        data = got.read()
        there.close()
        if word == "after":
            return self.cut()
        head = [(n, v) for n, v in got.getheaders()
                if n.lower() not in ("connection", "transfer-encoding", "content-length")]
        length = got.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
        head.append(("Content-Length", length or "0"))
        if word == "cut":
            self.answer(got.status, head, data[: len(data) // 2])
            self.wfile.flush()
            return self.cut()
        self.answer(got.status, head, data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_one


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
server.daemon_threads = True
with open(os.path.join(folder, "port.tmp"), "w", encoding="utf-8") as out:
    out.write(str(server.server_address[1]))
os.rename(os.path.join(folder, "port.tmp"), os.path.join(folder, "port"))
server.serve_forever()
