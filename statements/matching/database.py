"""The database's side of matching: what a match has to be, how it ends, and the folding of references.

A match is checked a statement at a time, since a batch makes thousands. Who inserts one waits in the unique indexes for
whoever is at the same line or operation, and then finds it claimed.
"""

# ruff: noqa: S608 - the statements are made of names from this code, never of input
from __future__ import annotations

FOLDED = "upper(regexp_replace(normalize({text}, NFKC), '[^[:alnum:]]+', '', 'g'))"
"""A reference without case and separators; leading noughts stay. The migrations' columns are made of the same text."""


def statements() -> str:
    """Functions and triggers; repeatable."""
    return f"""
CREATE OR REPLACE FUNCTION statements_reference(written text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT {FOLDED.format(text="written")}
$$;

CREATE OR REPLACE FUNCTION statements_match_fits() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
DECLARE wrong bigint;
BEGIN
  -- Lateral, each by its key: nothing is known of tables that were filled a minute ago. In place of foreign keys, too: the
  -- lines of an applied statement and the operations that there are stay, by triggers, and keep their keys.
  WITH fitting AS MATERIALIZED (
    SELECT m.id, m.tenant_id, m.line_place, l.statement_id, l.amount, m.unmade_at IS NULL AND s.state = 'applied'
      AND l.receiver_id = o.receiver_id AND l.currency = o.currency AND o.amount_minor IS NOT NULL
      AND (l.account = '' OR o.account = '' OR l.account = o.account) AND (m.together <> '' OR m.allocated =
        least(l.amount, o.amount_minor) AND m.apart = l.amount - o.amount_minor) AS fits
    FROM made m
    LEFT JOIN LATERAL (
      SELECT * FROM statements_statementline l WHERE l.id = m.line_id AND l.tenant_id = m.tenant_id LIMIT 1) l ON true
    LEFT JOIN LATERAL (SELECT * FROM statements_statement s WHERE s.id = l.statement_id LIMIT 1) s ON true
    LEFT JOIN LATERAL (
      SELECT * FROM dispatch_operation o WHERE o.id = m.operation_id AND o.tenant_id = m.tenant_id LIMIT 1) o ON true
  ), tallied AS (
    INSERT INTO statements_tally (tenant_id, statement_id, lines, amount)
      SELECT f.tenant_id, f.statement_id, count(*), sum(f.amount) FROM fitting f WHERE f.line_place = 0 AND f.fits
      GROUP BY f.tenant_id, f.statement_id ORDER BY f.statement_id
      ON CONFLICT (statement_id) DO UPDATE SET lines = statements_tally.lines + excluded.lines,
        amount = statements_tally.amount + excluded.amount, stale = true
  )
  SELECT f.id INTO wrong FROM fitting f WHERE f.fits IS NOT TRUE LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'match % is of a line and an operation that do not belong together', wrong
      USING ERRCODE = 'check_violation';
  END IF;
  -- Of a set: no line and no operation has more in it than it is, all that both sides have in common is in it, and the rest
  -- is its difference. Where nothing is apart that means that every line and every operation is in it whole.
  WITH pieces AS MATERIALIZED (SELECT * FROM made WHERE together <> '' AND NOT partial), sets AS (
    SELECT tenant_id, together, min(id) AS id, count(*) AS rows, min(allocated) AS smallest, sum(allocated) AS allocated,
      sum(apart) AS apart, count(*) FILTER (WHERE apart <> 0) AS apart_rows, bool_or(within_tolerance) AS near,
      bool_and(within_tolerance) AS all_near, count(DISTINCT apart_as) AS kinds FROM pieces GROUP BY tenant_id, together
  ), lines AS (
    SELECT p.tenant_id, p.together, max(l.amount) AS amount, sum(p.allocated) AS allocated, max(p.line_place) AS last,
      count(*) AS rows FROM pieces p
    CROSS JOIN LATERAL (SELECT * FROM statements_statementline l WHERE l.id = p.line_id LIMIT 1) l
    GROUP BY p.tenant_id, p.together, p.line_id
  ), operations AS (
    SELECT p.tenant_id, p.together, max(o.amount_minor) AS amount, sum(p.allocated) AS allocated,
      max(p.operation_place) AS last, count(*) AS rows FROM pieces p
    CROSS JOIN LATERAL (SELECT * FROM dispatch_operation o WHERE o.id = p.operation_id LIMIT 1) o
    GROUP BY p.tenant_id, p.together, p.operation_id
  ), sums AS (
    SELECT s.*, (SELECT sum(l.amount) FROM lines l WHERE l.tenant_id = s.tenant_id AND l.together = s.together) AS booked,
      (SELECT sum(o.amount) FROM operations o WHERE o.tenant_id = s.tenant_id AND o.together = s.together) AS approved,
      EXISTS (SELECT FROM (SELECT * FROM lines UNION ALL SELECT * FROM operations) e WHERE e.tenant_id = s.tenant_id
        AND e.together = s.together AND (e.allocated > e.amount OR e.last <> e.rows - 1)) AS too_much,
      (SELECT count(*) FROM statements_match e WHERE e.tenant_id = s.tenant_id AND e.together = s.together) AS ever
    FROM sets s
  )
  SELECT min(id) INTO wrong FROM sums WHERE NOT (rows > 1 AND ever = rows AND smallest > 0 AND NOT too_much
    AND allocated = least(booked, approved) AND apart = booked - approved AND apart_rows <= 1
    AND near = (apart <> 0) AND all_near = near AND kinds = 1);
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION 'the set of match % does not add up', wrong USING ERRCODE = 'check_violation';
  END IF;
  -- Parts of an operation: each line whole, all together no more than it is, and nothing else in their set. Who adds one waits
  -- in the index for whoever adds another.
  SELECT m.id INTO wrong FROM made m
    CROSS JOIN LATERAL (SELECT * FROM statements_statementline l WHERE l.id = m.line_id LIMIT 1) l
    CROSS JOIN LATERAL (SELECT * FROM dispatch_operation o WHERE o.id = m.operation_id LIMIT 1) o
    WHERE m.partial AND NOT (m.allocated = l.amount AND m.allocated > 0 AND NOT EXISTS (
        SELECT FROM statements_match e WHERE e.tenant_id = m.tenant_id AND e.together = m.together
          AND (e.operation_id <> m.operation_id OR NOT e.partial))
      AND (SELECT sum(e.allocated) FROM statements_match e WHERE e.operation_id = m.operation_id AND e.unmade_at IS NULL)
        <= o.amount_minor) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'match % is more than what is left of its operation', wrong USING ERRCODE = 'check_violation';
  END IF;
  -- After the tally, whose row whoever sets a line of the statement aside has held until here.
  SELECT a.id INTO wrong FROM made m
    CROSS JOIN LATERAL (SELECT a.id FROM statements_setaside a
      WHERE a.line_id = m.line_id AND a.taken_back_at IS NULL LIMIT 1) a LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'the line of a match is set aside (%)', wrong USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER fits AFTER INSERT ON statements_match
  REFERENCING NEW TABLE AS made FOR EACH STATEMENT EXECUTE FUNCTION statements_match_fits();

CREATE OR REPLACE FUNCTION statements_match_kept() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
BEGIN
  IF (to_jsonb(OLD) - 'unmade_at') IS DISTINCT FROM (to_jsonb(NEW) - 'unmade_at') OR NOT EXISTS (
    SELECT FROM statements_unmatch u JOIN statements_match m ON m.id = u.match_id
    WHERE m.id = OLD.id OR (m.tenant_id = OLD.tenant_id AND m.together <> '' AND m.together = OLD.together)) THEN
    RAISE EXCEPTION 'match % is ended by an unmatch and not changed otherwise', OLD.id
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER kept BEFORE UPDATE ON statements_match
  FOR EACH ROW EXECUTE FUNCTION statements_match_kept();
CREATE OR REPLACE TRIGGER never_deleted BEFORE DELETE ON statements_match
  FOR EACH ROW EXECUTE FUNCTION counterfoil_refuse_change();

-- As the owner: nobody else may change a match, and this is the one change that there is.
CREATE OR REPLACE FUNCTION statements_unmade() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
BEGIN
  IF EXISTS (SELECT FROM statements_match WHERE id = NEW.match_id AND unmade_at IS NOT NULL) THEN
    RAISE EXCEPTION 'match % is unmade already', NEW.match_id USING ERRCODE = 'check_violation';
  END IF;
  WITH ended AS (
    UPDATE statements_match m SET unmade_at = NEW.unmade_at FROM statements_match of
      WHERE of.id = NEW.match_id AND m.tenant_id = of.tenant_id AND m.unmade_at IS NULL
        AND (m.id = of.id OR (of.together <> '' AND NOT of.partial AND m.together = of.together))
      RETURNING m.line_id, m.line_place
  ), less AS (
    SELECT l.statement_id, count(*) AS lines, sum(l.amount) AS amount FROM ended e
    JOIN statements_statementline l ON l.id = e.line_id WHERE e.line_place = 0 GROUP BY l.statement_id
  )
  UPDATE statements_tally t SET lines = t.lines - less.lines, amount = t.amount - less.amount, stale = true
    FROM less WHERE t.statement_id = less.statement_id;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER unmade AFTER INSERT ON statements_unmatch
  FOR EACH ROW EXECUTE FUNCTION statements_unmade();

-- What is applied has a tally from the start: whoever answers for unclaimed lines finds it by that.
CREATE OR REPLACE FUNCTION statements_tally_begins() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
BEGIN
  INSERT INTO statements_tally (tenant_id, statement_id, lines, amount) VALUES (NEW.tenant_id, NEW.id, 0, 0)
    ON CONFLICT (statement_id) DO NOTHING;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER tally_begins AFTER INSERT OR UPDATE OF state ON statements_statement
  FOR EACH ROW WHEN (NEW.state = 'applied') EXECUTE FUNCTION statements_tally_begins();

CREATE OR REPLACE FUNCTION statements_aside_fits() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
DECLARE wrong bigint;
BEGIN
  UPDATE statements_tally t SET aside = t.aside + more.lines, stale = true FROM (
    SELECT statement_id, count(*) AS lines FROM said GROUP BY statement_id ORDER BY statement_id) more
    WHERE t.statement_id = more.statement_id;
  -- After the tally, whose row whoever matches a line of the statement has held until here.
  SELECT a.id INTO wrong FROM said a JOIN statements_statementline l ON l.id = a.line_id
    JOIN statements_statement s ON s.id = l.statement_id
    WHERE a.taken_back_at IS NOT NULL OR l.statement_id <> a.statement_id OR s.state <> 'applied' OR EXISTS (
      SELECT FROM statements_match m WHERE m.line_id = a.line_id AND m.unmade_at IS NULL) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'setting aside % is of a line that does not count or has a match', wrong
      USING ERRCODE = 'check_violation';
  END IF;
  WITH alone AS MATERIALIZED (
    SELECT s.id, coalesce((SELECT (n.terms->>'alone_up_to')::bigint FROM statements_matchingsettings n
      WHERE n.receiver_id = s.receiver_id ORDER BY n.version DESC LIMIT 1), 0) AS most
    FROM statements_statement s WHERE s.id IN (SELECT DISTINCT statement_id FROM said)
  )
  SELECT a.id INTO wrong FROM said a JOIN alone ON alone.id = a.statement_id
    JOIN statements_statementline l ON l.id = a.line_id
    WHERE a.second_id IS NULL AND l.amount > alone.most LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'setting aside % needs a second person', wrong USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER fits AFTER INSERT ON statements_setaside
  REFERENCING NEW TABLE AS said FOR EACH STATEMENT EXECUTE FUNCTION statements_aside_fits();

CREATE OR REPLACE FUNCTION statements_aside_taken_back() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
BEGIN
  UPDATE statements_tally t SET aside = t.aside - less.lines, stale = true FROM (
    SELECT n.statement_id, count(*) AS lines FROM now_so n JOIN until_now u ON u.id = n.id
    WHERE u.taken_back_at IS NULL AND n.taken_back_at IS NOT NULL GROUP BY n.statement_id) less
    WHERE t.statement_id = less.statement_id;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER taken_back AFTER UPDATE ON statements_setaside
  REFERENCING OLD TABLE AS until_now NEW TABLE AS now_so FOR EACH STATEMENT EXECUTE FUNCTION statements_aside_taken_back();
CREATE OR REPLACE TRIGGER never_deleted BEFORE DELETE ON statements_setaside
  FOR EACH ROW EXECUTE FUNCTION counterfoil_refuse_change();
"""
