"""Everything a browser keeps of the panel, as plain values."""

READ = """async () => {
    const plain = (value) => {
        if (value instanceof CryptoKey) return {key: value.type, extractable: value.extractable};
        if (value && typeof value === 'object') {
            return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, plain(inner)]));
        }
        return String(value);
    };
    const asked = (request) => new Promise((resolve, reject) => {
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
    });
    const databases = {};
    for (const {name} of await indexedDB.databases()) {
        const database = await asked(indexedDB.open(name));
        for (const store of database.objectStoreNames) {
            const values = await asked(database.transaction(store).objectStore(store).getAll());
            databases[`${name}/${store}`] = values.map((each) => 'privateKey' in each
                ? {privateKey: plain(each.privateKey), publicKey: plain(each.publicKey)} : plain(each));
        }
        database.close();
    }
    const kept = {};
    for (const name of await caches.keys()) {
        const cache = await caches.open(name);
        kept[name] = {};
        for (const request of await cache.keys()) {
            const answer = await cache.match(request);
            kept[name][new URL(request.url).pathname] = JSON.stringify([...answer.headers]) + await answer.text();
        }
    }
    return {cookie: document.cookie, local: {...localStorage}, session: {...sessionStorage}, databases, caches: kept};
}"""

ORDINARY = {
    "user-agent",
    "origin",
    "host",
    "referer",
    "accept",
    "accept-language",
    "accept-encoding",
    "content-type",
    "last-event-id",
}


def stored(window):
    """Cookies that scripts see, both storages, databases and caches."""
    return window.page.evaluate(READ)


def told(window):
    """Collects what the page sends in headers of its own making: keys and the like; call the result for the values."""
    values = set()

    def look(request):
        for name, value in request.headers.items():
            if name not in ORDINARY and not name.startswith("sec-") and len(value) >= 16:
                values.add(value)

    window.page.on("request", look)
    return values
