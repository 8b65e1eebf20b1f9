"use strict";
// Sorts and filters the table of cells, and shows the numbers of a cell beside the pointer.
(() => {
  const make = (tag, text, parent) => {
    const node = document.createElement(tag);
    node.textContent = text;
    if (parent) parent.append(node);
    return node;
  };
  const numeric = (text) => {
    if (["–", "", "saw nothing"].includes(text)) return -Infinity;
    return text === "∞" ? Infinity : Number(text.replaceAll(" ", ""));
  };

  const table = document.querySelector("#cells table");
  if (table && table.tBodies[0].rows.length > 1) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    const text = (row, column) => row.cells[column].textContent.trim();

    heads.forEach((head, column) => {
      const button = make("button", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const numbers = !rows.some((row) => Number.isNaN(numeric(text(row, column))));
        const compare = (a, b) => {
          const [one, other] = [text(a, column), text(b, column)];
          if (!numbers) return one.localeCompare(other);
          return numeric(one) === numeric(other) ? 0 : numeric(one) - numeric(other);
        };
        rows.sort((a, b) => (up ? compare(a, b) : compare(b, a)));
        body.append(...rows);
      });
    });

    const bar = make("p", "");
    bar.className = "filters";
    const choices = [0, 1].map((column) => {
      const label = make("label", heads[column].textContent + " ", bar);
      const select = make("select", "", label);
      make("option", "all", select).value = "";
      [...new Set(rows.map((row) => text(row, column)))].forEach((value) => {
        make("option", value, select).value = value;
      });
      select.addEventListener("change", filter);
      return select;
    });
    const count = make("span", "", bar);
    count.setAttribute("role", "status");
    function filter() {
      rows.forEach((row) => {
        row.hidden = choices.some((one, column) => one.value && one.value !== text(row, column));
      });
      count.textContent = rows.filter((row) => !row.hidden).length + " of " + rows.length + " cells";
    }
    filter();
    document.getElementById("cells").before(bar);
  }

  const tip = make("div", "", document.body);
  tip.className = "tip";
  tip.id = "tip";
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;
  const shown = ["Claimed", "Empirical", "Certified", "This attack shows at most", "p-value"];
  const facts = (link) => {
    const hash = link && link.getAttribute("href");
    return hash && hash.startsWith("#cell-") ? document.getElementById(hash.slice(1)) : null;
  };
  const show = (event) => {
    const link = event.target.closest && event.target.closest("a[href]");
    const list = facts(link);
    if (!list) return;
    tip.replaceChildren();
    make("strong", list.parentElement.querySelector("summary").textContent, tip);
    [...list.querySelectorAll("dt")].forEach((name) => {
      if (!shown.includes(name.textContent)) return;
      make("div", name.textContent + ": " + name.nextElementSibling.textContent, tip);
    });
    tip.hidden = false;
    link.setAttribute("aria-describedby", "tip");
    const at = link.getBoundingClientRect();
    const below = at.bottom + tip.offsetHeight + 8 < window.innerHeight;
    tip.style.top = (below ? at.bottom + 4 : Math.max(at.top - tip.offsetHeight - 4, 0)) + "px";
    tip.style.left = Math.max(Math.min(at.left, window.innerWidth - tip.offsetWidth - 8), 0) + "px";
  };
  const hide = () => {
    tip.hidden = true;
  };
  document.addEventListener("mouseover", show);
  document.addEventListener("focusin", show);
  document.addEventListener("mouseout", hide);
  document.addEventListener("focusout", hide);
  document.addEventListener("scroll", hide, true);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });

  // A link into a closed part opens it, also in browsers that do not do so by themselves.
  const open = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let part = target.closest("details"); part; part = part.parentElement.closest("details")) {
      part.open = true;
    }
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", open);
  open();
})();
