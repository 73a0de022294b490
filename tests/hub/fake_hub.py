# SPDX-License-Identifier: Apache-2.0
"""A hub on a local port: the Hugging Face and the ModelScope protocol, with faults on demand.

A repository is {path: bytes}. Files above LFS_BYTES are kept in "LFS": their SHA-256 is in the listing and reading them is
a redirect to a storage, another server on another port. What real clients of both hubs read from it is what
test_real_clients.py checks.
"""
import hashlib
import http.server
import json
import re
import threading
import time
import urllib.parse

LFS_BYTES = 200


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def git_sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    role = "hub"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub = self.server.hub
        hub.seen.append((self.role, self.path, dict(self.headers)))
        url = urllib.parse.urlsplit(self.path)
        if not self.fault(url.path):
            (self.hub_get if self.role == "hub" else self.storage_get)(url)

    def fault(self, path) -> bool:
        """Answers with the next fault that is set for this path, if one is."""
        hub = self.server.hub
        with hub.lock:
            for pattern, faults in hub.faults.items():
                if faults and re.search(pattern, self.role + path):
                    fault = faults.pop(0)
                    break
            else:
                return False
        if fault is None:
            return False
        fault(self)
        return True

    def reply(self, status, body=b"", headers=(), length=None):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def json(self, status, value, headers=()):
        self.reply(status, json.dumps(value).encode(), {"Content-Type": "application/json", **dict(headers)})

    # What both protocols have in common: bytes, with ranges.
    def send_bytes(self, data, etag, headers=()):
        hub = self.server.hub
        headers = {"ETag": etag, "Accept-Ranges": "bytes", **dict(headers)}
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        condition = self.headers.get("If-Range")
        status, begin = 200, 0
        if asked and hub.ranges and (condition is None or condition == etag):
            begin = int(asked[1])
            if begin >= len(data):
                return self.reply(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            status = 206
            headers["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        body = data[begin:]
        with hub.lock:
            cut = hub.cuts.pop(0) if hub.cuts and self.command == "GET" and len(body) > LFS_BYTES else None
        if cut is not None:
            self.reply(status, body[:cut], headers, length=len(body))
            self.wfile.flush()
            self.close_connection = True
            return None
        if hub.slow and self.command == "GET" and len(body) > LFS_BYTES:
            self.reply(status, body[: len(body) // 2], headers, length=len(body))
            self.wfile.flush()
            hub.half_sent.set()
            hub.go_on.wait(60)
            try:
                self.wfile.write(body[len(body) // 2 :])
            except OSError:
                self.close_connection = True
            return None
        return self.reply(status, body, headers)

    def storage_get(self, url):
        hub = self.server.hub
        with hub.lock:
            hub.active += 1
            hub.most_active = max(hub.most_active, hub.active)
        try:
            if hub.gather and hub.most_active < hub.gather:  # until so many are here at once
                hub.enough.wait(20)
            if hub.gather and hub.most_active >= hub.gather:
                hub.enough.set()
            self.storage_bytes(url)
        finally:
            with hub.lock:
                hub.active -= 1

    def storage_bytes(self, url):
        for repo in self.server.hub.repos.values():
            for data in repo.values():
                if url.path == "/blob/" + sha256(data):
                    return self.send_bytes(self.server.hub.corrupted(data), f'"cdn-{sha256(data)[:32]}"')
        return self.reply(403)

    def hub_get(self, url):
        if url.path.startswith("/api/v1/models/"):
            return self.model_scope(url)
        return self.hugging_face(url)

    # ------------------------------------------------------------------ Hugging Face
    def hugging_face(self, url):
        hub = self.server.hub
        api = re.fullmatch(r"/api/models/([^/]+/[^/]+)/(revision|tree)/([^/]+)", url.path)
        resolve = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", url.path)
        if not api and not resolve:
            return self.reply(404)
        name = urllib.parse.unquote((api or resolve)[1])
        revision = urllib.parse.unquote(api[3] if api else resolve[2])
        if (refusal := hub.refuses(name, self.headers.get("Authorization"), listing=bool(api))) is not None:
            return self.json(refusal[0], {"error": refusal[2]}, {"X-Error-Code": refusal[1], "X-Error-Message": refusal[2]})
        files = hub.repos[name]
        if revision not in (hub.commit(name), *hub.branches):
            message = f"Invalid rev id: {revision}"
            return self.json(404, {"error": message}, {"X-Error-Code": "RevisionNotFound", "X-Error-Message": message})
        commit = hub.commit(name)
        if api and api[2] == "revision":
            return self.json(200, {"id": name, "modelId": name, "sha": commit, "siblings": [{"rfilename": p} for p in files]})
        if api:
            return self.tree(url, name, files)
        path = urllib.parse.unquote(resolve[3])
        if path not in files:
            return self.json(404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})
        data = files[path]
        headers = {"X-Repo-Commit": commit}
        if len(data) <= LFS_BYTES:
            return self.send_bytes(hub.corrupted(data), f'"{git_sha1(data)}"', headers)
        headers |= {"X-Linked-Etag": f'"{sha256(data)}"', "X-Linked-Size": str(len(data)), "ETag": f'"{sha256(data)}"'}
        return self.reply(302, b"Found", {**headers, "Location": f"{hub.storage_url}/blob/{sha256(data)}?signature=x"})

    def tree(self, url, name, files):
        hub = self.server.hub
        entries = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": d}
                   for d in sorted({p.rsplit("/", 1)[0] for p in files if "/" in p})]
        for path, data in files.items():
            entry = {"type": "file", "path": path, "size": len(data), "oid": git_sha1(data)}
            if len(data) > LFS_BYTES:
                entry |= {"oid": "1" * 40, "lfs": {"oid": sha256(data), "size": len(data), "pointerSize": 134}}
            if not hub.checksums:
                entry = {"type": "file", "path": path, "size": len(data), "oid": ""}
            entries.append(entry)
        start = int(dict(urllib.parse.parse_qsl(url.query)).get("cursor", 0))
        end = start + hub.page_size
        headers = {}
        if end < len(entries):
            headers["Link"] = f'<{hub.link_url or hub.url}{url.path}?recursive=true&cursor={end}>; rel="next"'
        return self.json(200, hub.listing if hub.listing is not None else entries[start:end], headers)

    # ------------------------------------------------------------------ ModelScope
    def model_scope(self, url):
        hub = self.server.hub
        found = re.fullmatch(r"/api/v1/models/([^/]+/[^/]+?)(/repo|/repo/files|/revisions)?", url.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        name = found[1] if found else ""
        if (refusal := hub.refuses(name, self.headers.get("Authorization"))) is not None:
            status = 403 if refusal[0] in (401, 403) and name in hub.repos else 404
            return self.json(status, {"Code": 10010205001, "Message": f"{name} not found or no permission", "Success": False})
        files = hub.repos[name]
        if found[2] == "/revisions":
            return self.json(200, {"Code": 200, "Data": {"RevisionMap": {"Branches": [{"Revision": "master"}], "Tags": []}}, "Success": True})
        if found[2] is None:
            return self.json(200, {"Code": 200, "Data": {"Name": name, "Id": 1}, "Success": True})
        if query.get("Revision") not in ("master", *hub.branches):
            return self.json(404, {"Code": 10010205001, "Message": "revision not found", "Success": False})
        if found[2] == "/repo/files":
            entries = [{"Type": "tree", "Path": d, "Name": d, "Size": 0, "Sha256": ""}
                       for d in sorted({p.rsplit("/", 1)[0] for p in files if "/" in p})]
            entries += [{"Type": "blob", "Path": p, "Name": p.rsplit("/", 1)[-1], "Size": len(d), "Sha256": sha256(d),
                         "IsLFS": len(d) > LFS_BYTES, "Revision": hub.commit(name), "Mode": "33188"} for p, d in files.items()]
            return self.json(200, {"Code": 200, "Data": {"Files": entries, "IsVisual": 0}, "Message": "success", "Success": True})
        path = query.get("FilePath", "")
        if path not in files:
            return self.json(404, {"Code": 10010205001, "Message": "file not found", "Success": False})
        data = files[path]
        if len(data) > LFS_BYTES:
            return self.reply(302, b"", {"Location": f"{hub.storage_url}/blob/{sha256(data)}?auth_key=x"})
        return self.send_bytes(hub.corrupted(data), f'"{sha256(data)[:32]}"')


class StorageHandler(Handler):
    role = "storage"


class FakeHub:
    def __init__(self, tls=None):
        self.repos, self.faults, self.cuts, self.seen = {}, {}, [], []
        self.lock = threading.Lock()
        self.ranges, self.checksums, self.slow = True, True, False
        self.corrupt = 0          # files that arrive damaged
        self.page_size = 1000
        self.listing = None       # in place of the true one
        self.link_url = None      # where the next page is said to be
        self.branches = ["main"]
        self.private, self.gated, self.token = set(), set(), "hf_right"
        self.active = self.most_active = 0  # transfers of the storage at once
        self.gather, self.enough = 0, threading.Event()
        self.half_sent, self.go_on = threading.Event(), threading.Event()
        self._commits = {}
        self._servers = [self._serve(handler, tls) for handler in (Handler, StorageHandler)]
        scheme = "https" if tls else "http"
        self.url, self.storage_url = (f"{scheme}://127.0.0.1:{s.server_address[1]}" for s in self._servers)

    def _serve(self, handler, tls):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        server.hub = self
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return server

    def close(self):
        self.go_on.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def add(self, name, files):
        self.repos[name] = dict(files)
        text = json.dumps({p: sha256(d) for p, d in sorted(files.items())})
        self._commits[name] = hashlib.sha1(text.encode()).hexdigest()

    def commit(self, name):
        return self._commits[name]

    def corrupted(self, data):
        with self.lock:
            if self.corrupt and len(data) > LFS_BYTES:
                self.corrupt -= 1
                return data[:-1] + bytes([data[-1] ^ 1])
        return data

    def refuses(self, name, authorization, listing=False):
        """(status, X-Error-Code, message) for who may not read, or None. Anybody may list a gated Hugging Face model."""
        right = authorization == f"Bearer {self.token}"
        if name not in self.repos or (name in self.private and not right):
            return (404, "RepoNotFound", "Repository not found") if right else (401, "RepoNotFound", "Repository not found")
        if name in self.gated and not right and not listing:
            return 401 if authorization is None else 403, "GatedRepo", f"Access to model {name} is restricted"
        return None

    def bytes_requests(self, part):
        """Headers of the GETs whose path has `part`, in order."""
        return [headers for _, path, headers in self.seen if part in path]


def status(code, **headers):
    """A fault: this status, with headers such as retry_after=0."""
    return lambda handler: handler.reply(code, b"{}", {name.replace("_", "-"): str(value) for name, value in headers.items()})


def redirect(url):
    return lambda handler: handler.reply(302, b"", {"Location": url() if callable(url) else url})


def body(data, **headers):
    return lambda handler: handler.reply(200, data, {name.replace("_", "-"): value for name, value in headers.items()})


def hang(seconds):
    def fault(handler):
        time.sleep(seconds)
        handler.close_connection = True
    return fault
