/**
 * The page as xterm.js finds it. It makes style elements and style attributes, which the panel's policy forbids; here its
 * styles become constructed sheets, and attributes go through the style object, which the policy allows.
 */
export interface Sheets {
  document: Document;
  /** Do something that asks the page itself for its elements. */
  during: (work: () => void) => void;
  dispose: () => void;
}

/** The same for every span: only the way differs. */
HTMLSpanElement.prototype.setAttribute = function (name: string, value: string): void {
  if (name === 'style') this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
};

export function terminalDocument(page: Document): Sheets {
  const sheets: CSSStyleSheet[] = [];
  const create = page.createElement.bind(page) as (name: string) => HTMLElement;

  function made(name: string): HTMLElement {
    if (name !== 'style') return create(name);
    const sheet = new CSSStyleSheet();
    sheets.push(sheet);
    page.adoptedStyleSheets = [...page.adoptedStyleSheets, sheet];
    const element = create('span'); // stands for the style element; an empty one would be a violation too
    element.hidden = true;
    Object.defineProperty(element, 'textContent', {
      get: () => '',
      set: (text: string) => sheet.replaceSync(text),
    });
    return element;
  }

  const document = new Proxy(page, {
    get(target, key) {
      if (key === 'createElement') return made;
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
  return {
    document,
    during: (work) => {
      page.createElement = made as typeof page.createElement;
      try {
        work();
      } finally {
        Reflect.deleteProperty(page, 'createElement'); // the prototype's own is there again
      }
    },
    dispose: () => {
      page.adoptedStyleSheets = page.adoptedStyleSheets.filter((each) => !sheets.includes(each));
    },
  };
}
